import { expect, test } from 'vitest';
import { op, prefix } from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';

// The client decodes a long response of a watch in pieces, and delivers each revision when it is complete (rules S4 and
// S5 in docs/semantics.md).

const TXNS = 60;
const PUTS = 128;

test('a watch delivers each revision of a response of several megabytes once and in one batch (S4, S5)', async () => {
  const etcd = openClient();
  const name = `${unique('long')}/`;
  const value = 'x'.repeat(600);
  const revisions: bigint[] = [];
  for (let txn = 0; txn < TXNS; txn += 1) {
    const puts = Array.from({ length: PUTS }, (_, index) => op.put(`${name}${index}`, `${txn} ${value}`));
    revisions.push((await etcd.txn({ then: puts })).header.revision);
  }
  const sibling = etcd.watch(`${name}sibling`);
  await sibling.created();
  const seen: bigint[] = [];
  for await (const { revision, events } of etcd.watch(prefix(name), { startRevision: revisions[0] }).batches()) {
    const texts = events.map((event) => (event.type === 'put' ? event.kv.text() : ''));
    expect(texts).toEqual(Array.from({ length: PUTS }, () => `${seen.length} ${value}`));
    seen.push(revision);
    if (seen.length === TXNS) break;
  }
  expect(seen).toEqual(revisions);
  await etcd.put(`${name}sibling`, 'x');
  expect((await sibling.batches().next()).value?.events).toHaveLength(1);
});
