import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { op, prefix, type Watch, type WatchBatch } from '../../src/index.js';
import { bytesInUse } from '../support/bytes-in-use.js';
import { FaultyCluster } from '../support/faults/cluster.js';
import { between } from '../support/faults/rounds.js';
import { faultRow } from '../support/faults/row.js';
import { twoWays } from '../support/faults/two-ways.js';

// What one watch, or very many, live through (S2, S4, S5, S6, S11).

const MEBIBYTE = 1024 * 1024;
const OPS_PER_TXN = 128;
const WATCHERS = 10_000;
/** What may lie between a consumer that stopped and the server: the watch's own buffer, and what the wire holds. */
const MAX_WAITING_BYTES = 32 * MEBIBYTE;

const single = (): Promise<FaultyCluster | undefined> => FaultyCluster.start({ members: 1 });

faultRow('compaction under a disconnected watch', single, async (fixture, { seed, random }) => {
  const { direct, behind, proxy } = twoWays(fixture);
  const key = `k-${seed}`;
  const watch = behind.watch(key);
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
  // Never silently from where the store is now.
  expect(await seen.error).toMatchObject({ reason: 'Compacted', compactRevision: header.revision });
  expect(seen.batches).toHaveLength(1);
  return { faults: 1, events: 1, recoveryMs: [performance.now() - healedAt] };
});

faultRow('catch-up of 10 x 1 MB', single, async (fixture, { seed, random }) => {
  const { direct, behind, proxy } = twoWays(fixture);
  const values = Array.from({ length: 10 }, () => randomBytes(1_000_000));
  const startRevision = (await direct.put(`big-${seed}/`, '')).header.revision;
  for (const [index, value] of values.entries()) await direct.put(`big-${seed}/${index}`, value);
  const breaks = Math.floor(between(1, 4, random));
  const bufferBytes = between(1, 16 * MEBIBYTE, random);
  const got: Uint8Array[] = [];
  for await (const { kv } of behind.watch(prefix(`big-${seed}/`), { startRevision, bufferBytes })) {
    if (kv.value.length > 0) got.push(kv.value);
    if (got.length === values.length) break;
    // From the first event on, which is empty.
    if (got.length < breaks) proxy.dropConnections();
  }
  expect(got.map((value) => Buffer.from(value).equals(values[got.indexOf(value)] as Buffer))).toEqual(
    values.map(() => true),
  );
  await direct.delete(prefix(`big-${seed}/`));
  return { faults: breaks, events: values.length };
});

faultRow('Txn of 128 puts across a reconnect', single, async (fixture, { seed, random }) => {
  const { direct, behind, proxy } = twoWays(fixture);
  const watch = behind.watch(prefix(`t-${seed}/`));
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
  await expect.poll(() => seen.batches.length, { timeout: 20_000 }).toBe(faults);
  expect(seen.batches.map(({ events }) => events.length)).toEqual(seen.batches.map(() => OPS_PER_TXN));
  const rounds = seen.batches.map(({ events }) => new Set(events.map(({ kv }) => kv.text()[0])));
  expect(rounds).toEqual(rounds.map((_, round) => new Set([`${round}`])));
  await watch.close();
  return { faults, events: faults * OPS_PER_TXN };
});

faultRow('slow consumer', single, async (fixture, { seed, random }) => {
  const { direct, behind } = twoWays(fixture);
  const keys = prefix(`slow-${seed}/`);
  const [slow, sibling] = [behind.watch(keys), behind.watch(keys)];
  const siblingSeen = collect(sibling);
  await Promise.all([slow.created(), sibling.created()]);
  const before = bytesInUse();
  const value = randomBytes(500_000);
  const puts = Math.ceil(between(100, 200, random));
  for (let put = 0; put < puts; put += 1) {
    await direct.put(`slow-${seed}/${put % 8}`, value);
    // The sibling has taken its own: its memory is not what is measured.
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
    further: { 'MiB that waited': waitingBytes / MEBIBYTE, 'of MiB': (puts * value.length) / MEBIBYTE },
  };
});

faultRow('10,000 watchers', single, async (fixture, { seed, random }) => {
  const { direct, behind, proxy } = twoWays(fixture);
  const before = bytesInUse();
  const keyOf = (index: number): string => `w-${seed}/${index}`;
  const watches = Array.from({ length: WATCHERS }, (_, index) => behind.watch(keyOf(index)));
  await Promise.all(watches.map((watch) => watch.created()));
  const perWatcher = (bytesInUse() - before) / WATCHERS;
  const events = watches.map((watch) => watch.batches().next());
  const brokenAt = Math.floor(WATCHERS * random());
  let recoveryMs = 0;
  for (let index = 0; index < WATCHERS; index += OPS_PER_TXN) {
    if (index <= brokenAt && brokenAt < index + OPS_PER_TXN) {
      proxy.dropConnections();
      recoveryMs = performance.now();
    }
    const some = Array.from({ length: Math.min(OPS_PER_TXN, WATCHERS - index) }, (_, offset) => keyOf(index + offset));
    await direct.txn({ then: some.map((key) => op.put(key, key)) });
  }
  const seen = await Promise.all(events);
  recoveryMs = performance.now() - recoveryMs;
  expect(seen.map(({ value }) => (value as WatchBatch).events.map(({ kv }) => kv.text()))).toEqual(
    watches.map((_, index) => [keyOf(index)]),
  );
  await Promise.all(watches.map((watch) => watch.close()));
  await direct.delete(prefix(`w-${seed}/`));
  return { faults: 1, events: WATCHERS, recoveryMs: [recoveryMs], further: { 'bytes per watcher': perWatcher } };
});

/** Batches as they come, and the error that ends them. */
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
