import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Line, type Side, startPair } from '../support/etcdctl-pair.js';
import { EQUAL_LINES } from './etcdctl-lines.js';

let pair: Awaited<ReturnType<typeof startPair>>;
beforeAll(async () => {
  pair = await startPair();
}, 60_000);
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

it('the mode of etcdctl prints the same bytes and has the same exit code as etcdctl', async (context) => {
  if (pair === undefined) return context.skip('there is no etcdctl 3.6 on this machine');
  const failures: unknown[] = [];
  for (const each of EQUAL_LINES) {
    const [theirs, ours] = await bothRun(pair.sides, typeof each === 'string' ? { line: each } : each);
    if (JSON.stringify(ours) !== JSON.stringify(theirs)) failures.push({ theirs, ours });
  }
  expect(failures).toEqual([]);
}, 300_000);
