import fc from 'fast-check';
import { expect, it } from 'vitest';
import { messageArbitrary, messageTypes, ours } from '../../../../test/support/arbitraries.js';
import { errorOf } from '../../../../test/support/errors.js';
import { iterations } from '../../../../test/support/thorough.js';
import { spliced, unknownField } from '../../../../test/support/wire-bytes.js';
import { explain, type Span } from '../../src/inspect/explain.js';

const SEED = 20_260_722;
const RUNS = iterations(40);
const types = messageTypes.map((type) => [type.fullName.slice(1), type] as const);

it.each(types)(
  '`explain` assigns every byte of a %s to exactly one span, even if the message has unknown fields',
  (name, type) => {
    const given = fc.tuple(messageArbitrary(type), fc.array(unknownField, { maxLength: 3 }));
    fc.assert(
      fc.property(given, ([message, extra]) => {
        const bytes = spliced(type, ours.encode(type, message), extra);
        const spans = [...explain(name, bytes)];
        expect(spans.map(({ start }) => start)).toEqual([0, ...spans.map(({ end }) => end)].slice(0, spans.length));
        expect(spans.at(-1)?.end ?? 0).toBe(bytes.length);
      }),
      { seed: SEED, numRuns: RUNS },
    );
  },
);

it('`explain` yields the values of a message and of its nested messages', () => {
  const type = messageTypes.find(({ name }) => name === 'LeaseLeasesResponse') as (typeof messageTypes)[number];
  const bytes = ours.encode(type, {
    header: { clusterId: 2n ** 63n, memberId: 0n, revision: -1n, raftTerm: 0n },
    leases: [{ id: 5n }],
  });
  const values = [...explain('etcdserverpb.LeaseLeasesResponse', bytes)].filter(({ part }) => part === 'value');
  expect(values.map(({ depth, field, value }) => [depth, field?.name, value])).toEqual([
    [1, 'cluster_id', 2n ** 63n],
    [1, 'revision', -1n],
    [1, 'ID', 5n],
  ]);
});

it('`explain` yields one span for each element of a packed field', () => {
  const spans = [...explain('etcdserverpb.WatchCreateRequest', Uint8Array.of(0x2a, 2, 0, 1))];
  expect(spans.map(({ part, value }) => [part, value])).toEqual([
    ['tag', undefined],
    ['length', 2],
    ['value', 0],
    ['value', 1],
  ]);
});

it('`explain` yields the spans before malformed bytes, and then throws an error with reason MalformedMessage', async () => {
  const spans: Span[] = [];
  const error = await errorOf(() => {
    for (const span of explain('etcdserverpb.PutRequest', Uint8Array.of(0x0a, 1, 0x61, 0x12, 9))) spans.push(span);
  });
  expect(error.reason).toBe('MalformedMessage');
  expect(spans.map(({ part, end }) => [part, end])).toEqual([
    ['tag', 1],
    ['length', 2],
    ['value', 3],
    ['tag', 4],
  ]);
});
