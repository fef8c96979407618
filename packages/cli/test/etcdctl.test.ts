import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Line, type Ran, type Side, startPair } from '../../../test/support/etcdctl-pair.js';
import { EQUAL_LINES, REFUSED_LINES } from './etcdctl-lines.js';

const PAGE = readFileSync(new URL('../docs/guide.md', import.meta.url), 'utf8');

/** Returns the command lines that the page lists because they differ on purpose. */
function listedLines(): Line[] {
  const [, section = ''] = /^## In place of etcdctl\n(.*?)^## /ms.exec(PAGE) ?? [];
  return [...section.matchAll(/^\| `(.*?)` \|/gm)].map(([, cell = '']) => {
    const text = cell.replaceAll('\\|', '|');
    const [, input, piped] = /^printf '(.*)' \| etcdctl (.*)$/.exec(text) ?? [];
    if (piped !== undefined) return { line: piped, stdin: (input as string).replaceAll('\\n', '\n') };
    const [, name, value = '', line = ''] = /^(?:(\w+)=(\S*) )?etcdctl (.*)$/.exec(text) ?? [];
    return { line, ...(name === undefined ? {} : { env: { [name]: value } }) };
  });
}

let pair: Awaited<ReturnType<typeof startPair>>;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair?.close());

async function bothRun([one, other]: readonly [Side, Side], line: Line): Promise<readonly [unknown, unknown]> {
  const [theirs, ours] = await Promise.all([one.etcdctl(line), other.etcdwire(line)]);
  const shown = ({ code, stdout, stderr }: typeof ours) => ({
    line: line.line,
    stdin: line.stdin,
    code,
    stdout,
    stderr: line.otherStderr ? '' : stderr,
  });
  return [shown(theirs), shown(ours)];
}

function equal([theirs, ours]: readonly [unknown, unknown]): boolean {
  return JSON.stringify(ours) === JSON.stringify(theirs);
}

it('the mode of etcdctl prints the same bytes and has the same exit code as etcdctl', async (context) => {
  if (pair === undefined) return context.skip('there is no etcdctl 3.6 on this machine');
  const failures: unknown[] = [];
  for (const each of EQUAL_LINES) {
    const both = await bothRun(pair.sides, typeof each === 'string' ? { line: each } : each);
    if (!equal(both)) failures.push(both);
  }
  expect(EQUAL_LINES.length).toBeGreaterThanOrEqual(150);
  expect(failures).toEqual([]);
}, 600_000);

it('the mode of etcdctl refuses a wrong value of a flag with the text of etcdctl', async (context) => {
  if (pair === undefined) return context.skip('there is no etcdctl 3.6 on this machine');
  const [one, other] = pair.sides;
  const shown = ({ code, stderr }: Ran) => ({ code, text: stderr.split('\n', 1)[0] });
  for (const line of REFUSED_LINES) {
    const [theirs, ours] = await Promise.all([one.etcdctl({ line }), other.etcdwire({ line })]);
    expect.soft({ line, ...shown(ours) }).toEqual({ line, ...shown(theirs) });
  }
});

it('the command lines that docs/guide.md lists differ from etcdctl', async (context) => {
  if (pair === undefined) return context.skip('there is no etcdctl 3.6 on this machine');
  const lines = listedLines();
  expect(lines.length).toBeGreaterThan(5);
  for (const line of lines) {
    // The password in --user would answer the question for it.
    const user = line.line.includes('--user') ? { user: '' } : {};
    const given = { ...line, ...user, process: line.line.startsWith('lock ') };
    const both = await bothRun(pair.sides, given);
    expect.soft([line.line, equal(both) ? both : 'different']).toEqual([line.line, 'different']);
  }
});
