import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { afterAll, beforeAll, expect, vi } from 'vitest';

// Secrets, keys and values that are found again wherever they turn up. Nobody but the owner of a program is to read them
// in what it prints: errors, logs, traces.

/** All that Node shows of a thing to whoever asks for everything. */
const EVERYTHING = {
  depth: Number.POSITIVE_INFINITY,
  showHidden: true,
  getters: true,
  maxArrayLength: null,
  maxStringLength: null,
  breakLength: Number.POSITIVE_INFINITY,
} as const;

const planted = new Set<string>();
/** What was printed, and what the process was warned of. */
const printed: unknown[] = [];

/** Text that stands nowhere else. */
export function canary(what: string): string {
  return plant(`c${randomBytes(5).toString('hex')}-canary-${what}-${randomBytes(6).toString('hex')}`);
}

export function plant(text: string): string {
  planted.add(text);
  return text;
}

/** Fails where one of them can be read in what a program might print of these things, errors above all. */
export function expectNoCanary(...things: readonly unknown[]): void {
  for (const thing of things) expect(canariesIn(thing)).toEqual([]);
}

/** Watches what the tests of the file print, to their end. */
export function watchOutput(): void {
  const warned = (warning: Error): void => void printed.push(warning);
  beforeAll(() => {
    process.on('warning', warned);
    for (const name of ['debug', 'error', 'info', 'log', 'trace', 'warn'] as const)
      vi.spyOn(console, name).mockImplementation((...given) => void printed.push(...given));
  });
  afterAll(() => {
    process.off('warning', warned);
    vi.restoreAllMocks();
    expectNoCanary(...printed);
  });
}

/** Those that can be read in it, and where. */
export function canariesIn(thing: unknown): string[] {
  const texts = [...new Set(textsOf(thing))];
  return [...planted].flatMap((text) =>
    formsOf(text)
      .filter((form) => texts.some((shown) => shown.includes(form)))
      .map((form) => `${text} as ${form}: ${texts.find((shown) => shown.includes(form))?.slice(0, 2_000)}`),
  );
}

/** So much of one is too much: errors quote the beginning of what they cannot read. */
const TOO_MUCH_CHARS = 10;

/** The text, its bytes as numbers, in hexadecimal and in base64: without white space, for numbers are set in columns. */
function formsOf(text: string): string[] {
  const bytes = Buffer.from(text);
  const numbers = [...bytes];
  return [
    text,
    text.slice(0, TOO_MUCH_CHARS),
    bytes.toString('hex'),
    bytes.toString('base64').replace(/=+$/, ''),
    numbers.join(),
    numbers.map((byte, index) => `"${index}":${byte}`).join(),
  ];
}

function textsOf(thing: unknown, seen = new Set<unknown>()): string[] {
  if (seen.has(thing)) return [];
  seen.add(thing);
  const texts = [inspect(thing), inspect(thing, EVERYTHING), jsonOf(thing), textOf(thing)];
  if (thing instanceof Error) {
    texts.push(thing.message, thing.stack ?? '', ...textsOf(thing.cause, seen));
    if (thing instanceof AggregateError) texts.push(...thing.errors.flatMap((each) => textsOf(each, seen)));
  }
  return texts.map((text) => text.replace(/\s+/g, ''));
}

function textOf(thing: unknown): string {
  try {
    return String(thing);
  } catch {
    return '';
  }
}

function jsonOf(thing: unknown): string {
  try {
    return JSON.stringify(thing, (_, value) => (typeof value === 'bigint' ? String(value) : value)) ?? '';
  } catch {
    return '';
  }
}
