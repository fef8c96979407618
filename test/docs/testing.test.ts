import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { findEtcd } from '../../scripts/etcd/find.js';
import { runProgram } from '../support/program.js';

const PAGE = readFileSync(new URL('../../docs/testing.md', import.meta.url), 'utf8');

test('the program in docs/testing.md reports no violation of the lock that the program tests', async (context) => {
  const source = await findEtcd({ prefer: 'exact' });
  if (source.kind !== 'binary') return context.skip('needs an etcd binary');
  const [, program = ''] = /^```ts\n(.*?)^```$/ms.exec(PAGE) ?? [];
  expect(await runProgram(program, { ETCD_BIN: source.etcd })).toEqual(['true [] []']);
});
