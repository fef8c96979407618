import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { findEtcd } from '../../scripts/etcd/find.js';
import { runProgram } from '../support/program.js';

const PAGE = readFileSync(new URL('../../docs/testing.md', import.meta.url), 'utf8');

test('the example of docs/testing.md finds nothing wrong', async (context) => {
  const source = await findEtcd({ prefer: 'exact' });
  if (source.kind !== 'binary') return context.skip('needs a program of etcd');
  const [, program = ''] = /^```ts\n(.*?)^```$/ms.exec(PAGE) ?? [];
  expect(await runProgram(program, { ETCD_BIN: source.etcd })).toEqual(['true [] []']);
});
