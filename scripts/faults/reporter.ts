import type { Reporter, TestCase, TestModule } from 'vitest/node';
import type { RoundResult } from './round-result.js';

/** Collects what the rounds come to, and tells on stderr how far they are and what is wrong. */
export class FaultsReporter implements Reporter {
  readonly results: RoundResult[] = [];
  /** Failures that are not those of a round, such as servers that do not start. */
  broken = 0;
  readonly #onResult: () => void;

  constructor(onResult: () => void) {
    this.#onResult = onResult;
  }

  onTestCaseResult(testCase: TestCase): void {
    const { row, figures } = testCase.meta();
    const { state, errors } = testCase.result();
    if (row === undefined || state === 'pending') return;
    const { name: transport } = testCase.project;
    const ms = Math.round(testCase.diagnostic()?.duration ?? 0);
    this.results.push({ row, transport, round: testCase.name, state, ms, figures });
    this.#onResult();
    const done = this.results.filter((result) => result.row === row && result.transport === transport);
    const failed = done.filter((result) => result.state === 'failed').length;
    process.stderr.write(`${transport}: ${row}: ${done.length} done, ${failed} failed\n`);
    for (const { message } of errors ?? []) process.stderr.write(`  FAILED with ${testCase.name}: ${message}\n`);
  }

  onTestModuleEnd(module: TestModule): void {
    for (const { message } of module.errors()) this.#isBroken(`${module.relativeModuleId}: ${message}`);
    for (const suite of module.children.allSuites()) {
      for (const { message } of suite.errors()) this.#isBroken(`${suite.fullName}: ${message}`);
    }
  }

  onTestRunEnd(_modules: unknown, unhandled: readonly { readonly message: string }[]): void {
    for (const { message } of unhandled) this.#isBroken(`unhandled: ${message}`);
  }

  #isBroken(problem: string): void {
    this.broken += 1;
    process.stderr.write(`FAILED: ${problem}\n`);
  }
}
