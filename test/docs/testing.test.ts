import { readFileSync, rmSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { findEtcd } from '../../scripts/etcd.js';
import { compiledSource } from '../support/compiled.js';
import { importingSources, programsOf, runProgram } from '../support/program.js';

// These tests run the programs of docs/testing.md, and the program of docs/examples to which the page links.

const FAULTS = new URL('../../docs/examples/faults.ts', import.meta.url);
const PROGRAMS = programsOf('docs/testing.md');

function programsWith(text: string): string[] {
  return PROGRAMS.filter((program) => program.includes(text));
}

describe('docs/testing.md', () => {
  it('has exactly the nine programs that the other tests run', () => {
    const run = ["from 'vitest'", "from 'node:test'", 'clock.advance(', 'listen(', 'startEtcd('];
    expect(run.map((text) => programsWith(text).length)).toEqual([4, 1, 1, 2, 1]);
    expect(PROGRAMS).toHaveLength(9);
  });

  describe('has a test for Vitest:', async () => {
    // Vitest registers the tests of a file while it imports the file.
    for (const [index, program] of programsWith("from 'vitest'").entries()) {
      const file = compiledSource(importingSources(program), `docs-testing-${index}`);
      afterAll(() => rmSync(file, { force: true }));
      await import(/* @vite-ignore */ file);
    }
  });

  it("has a test for Node's test runner, which passes", async () => {
    const [program = ''] = programsWith("from 'node:test'");
    expect((await runProgram(program)).join('\n')).toMatch(/pass 1$/m);
  });

  it('has a program that moves the clock, which prints what its comment says', async () => {
    const [program = ''] = programsWith('clock.advance(');
    expect(await runProgram(program)).toEqual(['undefined']);
  });

  it('has programs that open a port and that lose an answer, which print what their comments say', async () => {
    const printed = await Promise.all(programsWith('listen(').map((program) => runProgram(program)));
    expect(printed).toEqual([['blue'], ['unknown blue']]);
  });

  it.each([
    ['starts a real etcd', () => programsWith('startEtcd(')[0], ['blue']],
    ['injects faults', () => readFileSync(FAULTS, 'utf8'), ['true [] []']],
  ])('has or links to a program that %s, which prints what its comment says', async (_what, read, expected) => {
    const source = await findEtcd();
    if (source.kind === 'docker') throw new Error('this program needs an etcd binary');
    const program = read() ?? '';
    expect(await runProgram(program, source.kind === 'binary' ? { ETCD_BIN: source.etcd } : {})).toEqual(expected);
  });
});
