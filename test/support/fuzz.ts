import { createHash, randomInt } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { join, relative } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { iterations } from './thorough.js';

// A fuzz target is a property that must hold for generated inputs. By default, a target always runs with the same seed.
// FUZZ_SEED and FUZZ_RUNS choose the seed and the number of inputs. If FUZZ_MINUTES is set, a target repeats the run
// with new seeds for that many minutes. `npm run test:fuzz` sets FUZZ_MINUTES. The corpus, test/fuzz/corpus, contains
// saved inputs.

const CORPUS = join(import.meta.dirname, '../fuzz/corpus');
const ORDINARY_SEED = 20_260;
/** The time limit of one run, in milliseconds. It includes the search for a smaller input that still fails. */
const RUN_LIMIT_MS = 180_000;

const { FUZZ_SEED, FUZZ_RUNS, FUZZ_MINUTES } = process.env;
const minutes = Number(FUZZ_MINUTES ?? 0);

export interface FuzzTarget<Input> {
  /** The name of the test file and of the corpus folder. */
  readonly target: string;
  /** The property that must hold for every input. Used as the name of the test. */
  readonly property: string;
  /** Generates the inputs. JSON must be able to represent each input, because the corpus stores inputs as JSON. */
  readonly inputs: fc.Arbitrary<Input>;
  /** The number of inputs in `npm run test:all`. Choose it so that the run takes a few seconds. */
  readonly runs: number;
  /**
   * Throws or rejects if the property does not hold. Otherwise, returns a word that classifies the input, such as
   * `answered`.
   */
  readonly check: (input: Input) => string | Promise<string>;
  /**
   * For words that `check` returns, a share of the inputs, from 0 to 1. `check` must return the word for more than this
   * share of the inputs, so that the test fails if its inputs no longer reach the interesting cases.
   */
  readonly parts: Readonly<Record<string, number>>;
}

/** Defines one test for each input that is saved in the corpus, and one test for generated inputs. */
export function fuzz<Input>(target: FuzzTarget<Input>): void {
  test.for(corpusOf<Input>(target.target))('the property holds for the saved input "%s"', async ([, input]) => {
    await target.check(input);
  });

  test(target.property, { timeout: minutes * 60_000 + 2 * RUN_LIMIT_MS }, async () => {
    const end = Date.now() + minutes * 60_000;
    let inputs = 0;
    do {
      const seed = Number(FUZZ_SEED ?? (minutes > 0 ? randomInt(2 ** 31) : ORDINARY_SEED));
      if (minutes > 0) report(`${target.target}: ${inputs} inputs, ${secondsTo(end)} s left, seed ${seed}`);
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
  const numRuns = Number(FUZZ_RUNS ?? iterations(target.runs));
  const details = await fc.check(property, { seed, numRuns, interruptAfterTimeLimit: RUN_LIMIT_MS });
  if (details.failed) throw failure(target, seed, details);
  for (const [end, part] of FUZZ_RUNS === undefined ? Object.entries(target.parts) : []) {
    const inputs = ends.get(end) ?? 0;
    expect(
      inputs,
      `${inputs} of ${details.numRuns} inputs ended with "${end}", but more than ${part * details.numRuns} must`,
    ).toBeGreaterThan(part * details.numRuns);
  }
  return details.numRuns;
}

/**
 * Returns an error that contains the failing input and the command that repeats the run. Saves the input in the corpus
 * if FUZZ_MINUTES is set.
 */
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
  const kept =
    minutes > 0 ? `The input was saved as ${name}. Give it a descriptive name.` : `Save the input as ${name}.`;
  const again = `FUZZ_SEED=${seed} npx vitest run --project cli --project generators test/fuzz/${target}.test.ts`;
  return new Error(
    `${problem}\n\nThe failing input, made smaller in ${numShrinks} steps:\n${json}\n${kept}\nRepeat with: ${again}`,
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

/** Writes directly to stderr, because the test reporter would hold the line back until the end. */
function report(line: string): void {
  writeSync(2, `${line}\n`);
}

/** Encodes bytes in hexadecimal, so that the JSON files of the corpus can contain them. */
export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');
}

export function fromHex(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text, 'hex'));
}
