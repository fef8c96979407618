import { createHash, randomInt } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { join, relative } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';

// Fuzz targets: what is fed with inputs of all kinds. An ordinary run takes those of one seed. FUZZ_SEED and FUZZ_RUNS
// give others; FUZZ_MINUTES goes on with new seeds for so long. `npm run test:fuzz` sets them.

const CORPUS = join(import.meta.dirname, '../fuzz/corpus');
const ORDINARY_SEED = 20_260;
/** The search for a smaller input that fails, too, must come to an end. */
const RUN_LIMIT_MS = 180_000;

const { FUZZ_SEED, FUZZ_RUNS, FUZZ_MINUTES } = process.env;
const minutes = Number(FUZZ_MINUTES ?? 0);

export interface FuzzTarget<Input> {
  /** The name of its file, and of the folder of its corpus. */
  readonly target: string;
  /** What is to hold of every input. */
  readonly property: string;
  /** All that JSON can hold, for the corpus. */
  readonly inputs: fc.Arbitrary<Input>;
  /** Inputs of an ordinary run: some seconds' worth. */
  readonly runs: number;
  /** Throws or rejects where the property does not hold; tells in one word how it went. */
  readonly check: (input: Input) => string | Promise<string>;
  /** The least part of the inputs that must have gone so: else nothing was tried. */
  readonly parts: Readonly<Record<string, number>>;
}

/** The inputs that were trouble once, and then new ones. */
export function fuzz<Input>(target: FuzzTarget<Input>): void {
  test.for(corpusOf<Input>(target.target))('%s', async ([, input]) => {
    await target.check(input);
  });

  test(target.property, { timeout: minutes * 60_000 + 2 * RUN_LIMIT_MS }, async () => {
    const end = Date.now() + minutes * 60_000;
    let inputs = 0;
    do {
      const seed = Number(FUZZ_SEED ?? (minutes > 0 ? randomInt(2 ** 31) : ORDINARY_SEED));
      if (minutes > 0) tell(`${target.target}: ${inputs} inputs, ${secondsTo(end)} s to go, seed ${seed}`);
      inputs += await run(target, seed);
    } while (Date.now() < end && FUZZ_SEED === undefined);
  });
}

async function run<Input>(target: FuzzTarget<Input>, seed: number): Promise<number> {
  const ends = new Map<string, number>();
  const property = fc.asyncProperty(target.inputs, async (input) => {
    const end = await target.check(input);
    ends.set(end, (ends.get(end) ?? 0) + 1);
  });
  const numRuns = Number(FUZZ_RUNS ?? target.runs);
  const details = await fc.check(property, { seed, numRuns, interruptAfterTimeLimit: RUN_LIMIT_MS });
  if (details.failed) throw failure(target, seed, details);
  for (const [end, part] of FUZZ_RUNS === undefined ? Object.entries(target.parts) : []) {
    const inputs = ends.get(end) ?? 0;
    expect(inputs, `of ${details.numRuns} inputs ${inputs} went so: ${end}`).toBeGreaterThan(part * details.numRuns);
  }
  return details.numRuns;
}

/** What to do again, and with what. */
function failure<Input>({ target }: FuzzTarget<Input>, seed: number, details: fc.RunDetails<[Input]>): Error {
  const json = JSON.stringify(details.counterexample?.[0], undefined, 2);
  const path = join(CORPUS, target, `found-${createHash('sha256').update(json).digest('hex').slice(0, 8)}.json`);
  const name = relative(process.cwd(), path);
  if (minutes > 0) {
    mkdirSync(join(CORPUS, target), { recursive: true });
    writeFileSync(path, `${json}\n`);
  }
  const { errorInstance, numShrinks } = details;
  const problem = errorInstance instanceof Error ? errorInstance.message : String(errorInstance);
  const kept = minutes > 0 ? `It is kept as ${name}; give it a name.` : `It belongs into ${name}.`;
  const again = `FUZZ_SEED=${seed} npx vitest run --project http2 test/fuzz/${target}.test.ts`;
  return new Error(
    `${problem}\n\nafter ${numShrinks} attempts to make it smaller, with\n${json}\n${kept}\nAgain: ${again}`,
    {
      cause: errorInstance,
    },
  );
}

function corpusOf<Input>(target: string): (readonly [name: string, input: Input])[] {
  const folder = join(CORPUS, target);
  return readdirSync(folder)
    .sort()
    .map((file) => [
      file.replace(/\.json$/, '').replaceAll('-', ' '),
      JSON.parse(readFileSync(join(folder, file), 'utf8')) as Input,
    ]);
}

function secondsTo(end: number): number {
  return Math.max(0, Math.round((end - Date.now()) / 1_000));
}

/** Past the reporter of the tests, which would keep it to the end. */
function tell(line: string): void {
  writeSync(2, `${line}\n`);
}

/** Bytes as they stand in a corpus. */
export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');
}

export function fromHex(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text, 'hex'));
}
