import { op } from '../../../src/index.js';
import type { Task, Work } from '../child/tasks.js';
import { CLIENTS, type ClientName } from '../clients/bench-client.js';
import { inTurn } from '../in-turn.js';
import type { Bench } from '../processes.js';
import type { Settings } from '../settings.js';
import type { Workload } from '../workload.js';

export const LIVE_EVENTS_GROUP = 'live watch events';
export const ONE_WATCHER_VARIANT = '1 watcher';

/** Number of keys that the writer puts. In the workload with many watchers, each watcher watches one of these keys. */
const WATCHED_KEYS = 1_000;

/**
 * Returns the workloads that watch keys while another process puts them. The same process puts the keys for all
 * clients.
 */
export function liveEventWorkloads(settings: Settings): Workload[] {
  return [
    liveEvents(ONE_WATCHER_VARIANT, 1, settings),
    liveEvents(`${WATCHED_KEYS.toLocaleString('en')} watchers on one stream`, WATCHED_KEYS, settings),
  ];
}

function liveEvents(variant: string, watchers: number, { rounds, liveEvents: events }: Settings): Workload<ClientName> {
  /** Each client has its own prefix, because the watches of all clients stay open between rounds. */
  const prefixOf = (client: ClientName): string => `bench/watched/${watchers}/${client}/`;
  const measure: Workload<ClientName>['measure'] = async (bench, client) => {
    await bench.perform(client, { kind: 'expect-events', events });
    const seen = bench.perform(client, { kind: 'await-events' });
    const prefix = prefixOf(client);
    await Promise.all([seen, bench.perform('writer', { kind: 'write-events', prefix, events, keys: WATCHED_KEYS })]);
    return seen;
  };
  return {
    group: LIVE_EVENTS_GROUP,
    variant,
    competitors: CLIENTS,
    rounds,
    prepare: async (bench) => {
      for (const client of CLIENTS) {
        await bench.perform(client, { kind: 'open-watchers', prefix: prefixOf(client), watchers });
        await measure(bench, client);
      }
    },
    measure,
    finish: (bench) => bench.performAll(CLIENTS, { kind: 'close-watchers' }),
  };
}

const PREFIX = 'bench/many/';
const VALUE = Buffer.alloc(100, 'v');
const PUTS_PER_TXN = 100;
/**
 * The prefix of the keys for single puts. Each single put is a separate call. These puts write the same keys again and
 * again.
 */
const SINGLE_PREFIX = 'bench/single/';
const SINGLE_KEYS = 1_000;
const PUTS_IN_FLIGHT = 512;
/**
 * The maximum number of rounds in the workload with events of single puts. The number is low, because a client with one
 * watch needs 14 s to receive 100,000 such events.
 */
const MAX_SINGLE_ROUNDS = 3;

export const MANY_KEYS_GROUP = 'scans and past events';
export const SCAN_VARIANT = 'scan, keys';
export const CATCH_UP_VARIANT = 'watch in the past, events of single puts';
const BATCH_CATCH_UP_VARIANT = `watch in the past, events of transactions of ${PUTS_PER_TXN} puts`;

/** Returns the workloads that read many keys in one scan, or receive many past events with one watch. */
export function manyKeysWorkloads(settings: Settings): Workload[] {
  const { manyKeys: keys, singlePuts } = settings;
  const startRevisions = { many: 0n, single: 0n };
  const putKeys = async (bench: Bench): Promise<void> => {
    if (bench.once('many keys')) startRevisions.many = await putInTransactions(bench, keys);
  };
  const putSingly = async (bench: Bench): Promise<void> => {
    startRevisions.single = await putOneByOne(bench, singlePuts);
  };
  return [
    singleCall(SCAN_VARIANT, settings.rounds, putKeys, () => ({ kind: 'scan', prefix: PREFIX, keys })),
    singleCall(BATCH_CATCH_UP_VARIANT, settings.rounds, putKeys, () => ({
      kind: 'catch-up',
      prefix: PREFIX,
      startRevision: startRevisions.many,
      events: keys,
    })),
    singleCall(CATCH_UP_VARIANT, Math.min(settings.rounds, MAX_SINGLE_ROUNDS), putSingly, () => ({
      kind: 'catch-up',
      prefix: SINGLE_PREFIX,
      startRevision: startRevisions.single,
      events: singlePuts,
    })),
  ];
}

function singleCall(
  variant: string,
  rounds: number,
  putKeys: (bench: Bench) => Promise<void>,
  work: () => Work,
): Workload<ClientName> {
  const once = (): Task => ({ kind: 'calls', work: work(), limits: { inFlight: 1, calls: 1 } });
  return {
    group: MANY_KEYS_GROUP,
    variant,
    competitors: CLIENTS,
    rounds,
    prepare: async (bench) => {
      await putKeys(bench);
      await bench.performAll(CLIENTS, once());
    },
    measure: (bench, client) => bench.perform(client, once()),
  };
}

/** Puts the keys with one call for each put. Resolves with the revision of the first put. */
async function putOneByOne({ client }: Bench, puts: number): Promise<bigint> {
  const first = await client.put(`${SINGLE_PREFIX}0`, VALUE);
  await inTurn(PUTS_IN_FLIGHT, puts - 1, (index) => client.put(`${SINGLE_PREFIX}${(index + 1) % SINGLE_KEYS}`, VALUE));
  return first.header.revision;
}

/** Puts the keys in transactions. Resolves with the revision of the first transaction. */
async function putInTransactions({ client }: Bench, keys: number): Promise<bigint> {
  let first = 0n;
  for (let start = 0; start < keys; start += PUTS_PER_TXN) {
    const puts = Array.from({ length: Math.min(PUTS_PER_TXN, keys - start) }, (_, index) =>
      op.put(`${PREFIX}${String(start + index).padStart(8, '0')}`, VALUE),
    );
    const { header } = await client.txn({ then: puts });
    first ||= header.revision;
  }
  return first;
}
