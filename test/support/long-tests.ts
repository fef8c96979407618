import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node';

/** The longest test of a complete run takes 50 s on a busy machine. */
const LONG_MS = 60_000;

type Hook = Parameters<NonNullable<Reporter['onHookStart']>>[0];

/**
 * Names each test and each hook that has run for a minute. A test that hangs fails only at its time limit, which must be
 * much longer, because the tests may run on a busy machine.
 */
export class LongTests implements Reporter {
  readonly #write: (text: string) => void;
  readonly #timers = new Map<string, NodeJS.Timeout>();

  constructor(write = (text: string): void => void process.stderr.write(text)) {
    this.#write = write;
  }

  onTestCaseReady(test: TestCase): void {
    this.#begin(test.id, describe(test));
  }

  onTestCaseResult(test: TestCase): void {
    this.#end(test.id);
  }

  onHookStart({ name, entity }: Hook): void {
    this.#begin(`${name} ${entity.id}`, `${name} of ${describe(entity)}`);
  }

  onHookEnd({ name, entity }: Hook): void {
    this.#end(`${name} ${entity.id}`);
  }

  onTestRunEnd(): void {
    for (const id of [...this.#timers.keys()]) this.#end(id);
  }

  #begin(id: string, text: string): void {
    this.#end(id);
    const timer = setTimeout(() => this.#write(`still running after ${LONG_MS / 1_000} s: ${text}\n`), LONG_MS);
    this.#timers.set(id, timer.unref());
  }

  #end(id: string): void {
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
  }
}

function describe(entity: TestCase | TestSuite | TestModule): string {
  const { relativeModuleId, project } = entity.type === 'module' ? entity : entity.module;
  const name = entity.type === 'module' ? '' : ` > ${entity.fullName}`;
  return `[${project.name}] ${relativeModuleId}${name}`;
}
