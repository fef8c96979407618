import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { afterAll, beforeAll, expect, vi } from 'vitest';

// A canary is a unique text that a test uses as a secret, a key or a value. Errors, logs and traces must not contain
// canaries.

/** The options with which `inspect` shows everything. */
const EVERYTHING = {
  depth: Number.POSITIVE_INFINITY,
  showHidden: true,
  getters: true,
  maxArrayLength: null,
  maxStringLength: null,
  breakLength: Number.POSITIVE_INFINITY,
} as const;

const planted = new Set<string>();
/** The recorded arguments of console calls, and the recorded warnings of the process. */
const printed: unknown[] = [];

/** Creates a canary whose text contains `what`. */
export function canary(what: string): string {
  return plant(`c${randomBytes(5).toString('hex')}-canary-${what}-${randomBytes(6).toString('hex')}`);
}

export function plant(text: string): string {
  planted.add(text);
  return text;
}

/** Fails if a canary can be read in any printed form of these values. */
export function expectNoCanary(...things: readonly unknown[]): void {
  for (const thing of things) expect(canariesIn(thing)).toEqual([]);
}

/** Records what the tests of the current file print. Fails after the last test if the output contains a canary. */
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

/**
 * Describes each canary that can be read in a value: the canary, its form, and the start of the text that contains it.
 */
export function canariesIn(thing: unknown): string[] {
  const texts = [...new Set(textsOf(thing))];
  return [...planted].flatMap((text) =>
    formsOf(text)
      .filter((form) => texts.some((shown) => shown.includes(form)))
      .map((form) => `${text} as ${form}: ${texts.find((shown) => shown.includes(form))?.slice(0, 2_000)}`),
  );
}

/**
 * A canary counts as readable if a text contains this many of its first characters. A shorter start is allowed, because
 * errors quote the start of input that cannot be parsed.
 */
const TOO_MUCH_CHARS = 10;

/**
 * The forms in which a printed value may show a text: the text, its start, and its bytes in hexadecimal, base64 and
 * decimal. `textsOf` removes whitespace from printed values, because `inspect` prints numbers in columns.
 */
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
