import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { op, prefix, type Watch, type WatchBatch } from '../../src/index.js';
import { FaultyCluster } from '../load/cluster.js';
import { between } from '../load/rounds.js';
import { directAndProxied, faultRow } from '../load/row.js';
import { bytesInUse } from '../support/measure.js';
import { valueText } from '../support/watch-events.js';

// These tests cause faults that affect one watch or thousands of watches (rules S2, S4, S5, S6 and S11 in
// docs/semantics.md).

const MEBIBYTE = 1024 * 1024;
const OPS_PER_TXN = 128;
const WATCHES = 10_000;
/**
 * The maximum memory that a watch's events may use while the consumer does not read them. Unread events are in the
 * watch's buffer and in the connection's buffers.
 */
const MAX_WAITING_BYTES = 32 * MEBIBYTE;

const single = (): Promise<FaultyCluster | undefined> => FaultyCluster.start({ members: 1 });

faultRow('compaction while a watch is disconnected', single, async (fixture, { seed, random }) => {
  const { direct, proxied, proxy } = directAndProxied(fixture);
  const key = `k-${seed}`;
  const watch = proxied.watch(key);
  const seen = collect(watch);
  await watch.created();
  await direct.put(key, 'seen');
  await expect.poll(() => seen.batches.length).toBe(1);
  proxy.blackhole();
  proxy.dropConnections();
  const missed = Math.ceil(between(0, 5, random));
  for (let put = 0; put < missed; put += 1) await direct.put(key, 'missed');
  const { header } = await direct.put('another', '');
  await direct.compact(header.revision);
  const healedAt = performance.now();
  proxy.heal();
  // The watch must report the compaction, rather than continue at the current revision without the missed events.
  expect(await seen.error).toMatchObject({ reason: 'Compacted', compactRevision: header.revision });
  expect(seen.batches).toHaveLength(1);
  return { faults: 1, events: 1, recoveryMs: [performance.now() - healedAt] };
});

faultRow('catch-up on 10 events of 1 MB across reconnects', single, async (fixture, { seed, random }) => {
  const { direct, proxied, proxy } = directAndProxied(fixture);
  const values = Array.from({ length: 10 }, () => randomBytes(1_000_000));
  const startRevision = (await direct.put(`big-${seed}/`, '')).header.revision;
  for (const [index, value] of values.entries()) await direct.put(`big-${seed}/${index}`, value);
  const breaks = Math.floor(between(1, 4, random));
  const bufferBytes = between(1, 16 * MEBIBYTE, random);
  const got: Uint8Array[] = [];
  for await (const event of proxied.watch(prefix(`big-${seed}/`), { startRevision, bufferBytes })) {
    if (event.type === 'put' && event.kv.value.length > 0) got.push(event.kv.value);
    if (got.length === values.length) break;
    // `got` does not contain the first event, because its value is empty. So this line drops the connections `breaks`
    // times.
    if (got.length < breaks) proxy.dropConnections();
  }
  expect(got.map((value) => Buffer.from(value).equals(values[got.indexOf(value)] as Buffer))).toEqual(
    values.map(() => true),
  );
  await direct.delete(prefix(`big-${seed}/`));
  return { faults: breaks, events: values.length };
});

faultRow('transactions of 128 puts across reconnects', single, async (fixture, { seed, random }) => {
  const { direct, proxied, proxy } = directAndProxied(fixture);
  const watch = proxied.watch(prefix(`t-${seed}/`));
  const seen = collect(watch);
  await watch.created();
  const faults = 8;
  for (let round = 0; round < faults; round += 1) {
    const then = Array.from({ length: OPS_PER_TXN }, (_, index) =>
      op.put(`t-${seed}/${index}`, `${round}`.repeat(200)),
    );
    const done = direct.txn({ then });
    await pause(between(0, 4, random));
    proxy.dropConnections();
    await done;
  }
  await expect.poll(() => seen.batches.length).toBe(faults);
  expect(seen.batches.map(({ events }) => events.length)).toEqual(seen.batches.map(() => OPS_PER_TXN));
  const rounds = seen.batches.map(({ events }) => new Set(events.map((event) => valueText(event)[0])));
  expect(rounds).toEqual(rounds.map((_, round) => new Set([`${round}`])));
  await watch.close();
  return { faults, events: faults * OPS_PER_TXN };
});

faultRow('slow consumer of a watch', single, async (fixture, { seed, random }) => {
  const { direct, proxied } = directAndProxied(fixture);
  const keys = prefix(`slow-${seed}/`);
  const [slow, sibling] = [proxied.watch(keys), proxied.watch(keys)];
  const siblingSeen = collect(sibling);
  await Promise.all([slow.created(), sibling.created()]);
  const before = bytesInUse();
  const value = randomBytes(500_000);
  const puts = Math.ceil(between(100, 200, random));
  for (let put = 0; put < puts; put += 1) {
    await direct.put(`slow-${seed}/${put % 8}`, value);
    // Drop the events of `sibling`, because the test measures only the memory of the slow watch.
    await expect.poll(() => siblingSeen.batches.length, { interval: 1 }).toBe(put + 1);
    siblingSeen.batches[put] = { ...(siblingSeen.batches[put] as WatchBatch), events: [] };
  }
  const waitingBytes = bytesInUse() - before;
  expect(waitingBytes).toBeLessThan(MAX_WAITING_BYTES);
  const revisions: bigint[] = [];
  for await (const { revision } of slow.batches()) {
    revisions.push(revision);
    if (revisions.length === puts) break;
  }
  expect(revisions).toEqual(siblingSeen.batches.map(({ revision }) => revision));
  await sibling.close();
  return {
    faults: 1,
    events: puts,
    further: { 'MiB buffered': waitingBytes / MEBIBYTE, 'MiB written': (puts * value.length) / MEBIBYTE },
  };
});

faultRow('10,000 watches across a reconnect', single, async (fixture, { seed, random }) => {
  const { direct, proxied, proxy } = directAndProxied(fixture);
  const before = bytesInUse();
  const keyOf = (index: number): string => `w-${seed}/${index}`;
  const watches = Array.from({ length: WATCHES }, (_, index) => proxied.watch(keyOf(index)));
  await Promise.all(watches.map((watch) => watch.created()));
  const perWatch = (bytesInUse() - before) / WATCHES;
  const events = watches.map((watch) => watch.batches().next());
  const brokenAt = Math.floor(WATCHES * random());
  let recoveryMs = 0;
  for (let index = 0; index < WATCHES; index += OPS_PER_TXN) {
    if (index <= brokenAt && brokenAt < index + OPS_PER_TXN) {
      proxy.dropConnections();
      recoveryMs = performance.now();
    }
    const some = Array.from({ length: Math.min(OPS_PER_TXN, WATCHES - index) }, (_, offset) => keyOf(index + offset));
    await direct.txn({ then: some.map((key) => op.put(key, key)) });
  }
  const seen = await Promise.all(events);
  recoveryMs = performance.now() - recoveryMs;
  expect(seen.map(({ value }) => (value as WatchBatch).events.map(valueText))).toEqual(
    watches.map((_, index) => [keyOf(index)]),
  );
  await Promise.all(watches.map((watch) => watch.close()));
  await direct.delete(prefix(`w-${seed}/`));
  return { faults: 1, events: WATCHES, recoveryMs: [recoveryMs], further: { 'bytes per watch': perWatch } };
});

/** Collects the batches of a watch until it ends. */
function collect(watch: Watch): { readonly batches: WatchBatch[]; readonly error: Promise<unknown> } {
  const batches: WatchBatch[] = [];
  const taking = async (): Promise<void> => {
    for await (const batch of watch.batches()) batches.push(batch);
  };
  const error = taking().then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return { batches, error };
}
