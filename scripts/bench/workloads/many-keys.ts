import { op } from '../../../src/index.js';
import type { Bench } from '../bench.js';
import type { Task, Work } from '../child/task.js';
import { CONTENDERS, type ContenderName } from '../contenders/open-contender.js';
import type { Settings } from '../settings.js';
import type { Workload } from './workload.js';

const PREFIX = 'bench/many/';
const VALUE = Buffer.alloc(100, 'v');
const PUTS_PER_TXN = 100;
/** Puts by themselves, again and again over the same keys. */
const SINGLE_PREFIX = 'bench/single/';
const SINGLE_KEYS = 1_000;
const PUTS_IN_FLIGHT = 512;

export const MANY_KEYS_GROUP = 'reading much';
export const SCAN_VARIANT = 'scan, keys';
export const CATCH_UP_VARIANT = 'watch in the past, events of single puts';
const BATCH_CATCH_UP_VARIANT = `watch in the past, events of transactions of ${PUTS_PER_TXN} puts`;

/** Reading many keys at once, and seeing how they came about. */
export function manyKeysWorkloads(settings: Settings): Workload[] {
  const { manyKeys: keys, singlePuts } = settings;
  const startRevisions = { many: 0n, single: 0n };
  const putKeys = async (bench: Bench): Promise<void> => {
    if (bench.once('many keys')) startRevisions.many = await putMany(bench, keys);
  };
  const putSingly = async (bench: Bench): Promise<void> => {
    startRevisions.single = await putOneByOne(bench, singlePuts);
  };
  return [
    oneByOne(SCAN_VARIANT, settings, putKeys, () => ({ kind: 'scan', prefix: PREFIX, keys })),
    oneByOne(BATCH_CATCH_UP_VARIANT, settings, putKeys, () => ({
      kind: 'catch-up',
      prefix: PREFIX,
      startRevision: startRevisions.many,
      events: keys,
    })),
    // A client that does nothing about it takes 14 s for a hundred thousand.
    oneByOne(CATCH_UP_VARIANT, { ...settings, rounds: Math.min(settings.rounds, 3) }, putSingly, () => ({
      kind: 'catch-up',
      prefix: SINGLE_PREFIX,
      startRevision: startRevisions.single,
      events: singlePuts,
    })),
  ];
}

function oneByOne(
  variant: string,
  { rounds }: Settings,
  putKeys: (bench: Bench) => Promise<void>,
  work: () => Work,
): Workload<ContenderName> {
  const once = (): Task => ({ kind: 'calls', work: work(), limits: { inFlight: 1, calls: 1 } });
  return {
    group: MANY_KEYS_GROUP,
    variant,
    contenders: CONTENDERS,
    rounds,
    prepare: async (bench) => {
      await putKeys(bench);
      await bench.performAll(CONTENDERS, once());
    },
    measure: (bench, contender) => bench.perform(contender, once()),
  };
}

/** The revision of the first put. */
async function putOneByOne({ client }: Bench, puts: number): Promise<bigint> {
  const first = await client.put(`${SINGLE_PREFIX}0`, VALUE);
  let made = 1;
  const loop = async (): Promise<void> => {
    while (made < puts) await client.put(`${SINGLE_PREFIX}${made++ % SINGLE_KEYS}`, VALUE);
  };
  await Promise.all(Array.from({ length: PUTS_IN_FLIGHT }, loop));
  return first.header.revision;
}

/** The revision of the first put. */
async function putMany({ client }: Bench, keys: number): Promise<bigint> {
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
