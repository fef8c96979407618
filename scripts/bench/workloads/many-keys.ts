import { op } from '../../../src/index.js';
import type { Bench } from '../bench.js';
import type { Task, Work } from '../child/task.js';
import { CONTENDERS, type ContenderName } from '../contenders/open-contender.js';
import type { Settings } from '../settings.js';
import type { Workload } from './workload.js';

const PREFIX = 'bench/many/';
const VALUE = Buffer.alloc(100, 'v');
const PUTS_PER_TXN = 100;

export const MANY_KEYS_GROUP = 'reading much';
export const SCAN_VARIANT = 'scan, keys';
export const CATCH_UP_VARIANT = 'watch in the past, events';

/** Reading many keys at once, and seeing how they came about. */
export function manyKeysWorkloads(settings: Settings): Workload[] {
  const keys = settings.manyKeys;
  let startRevision = 0n;
  const putKeys = async (bench: Bench): Promise<void> => {
    if (bench.once('many keys')) startRevision = await putMany(bench, keys);
  };
  return [
    oneByOne(SCAN_VARIANT, settings, putKeys, () => ({ kind: 'scan', prefix: PREFIX, keys })),
    oneByOne(CATCH_UP_VARIANT, settings, putKeys, () => ({
      kind: 'catch-up',
      prefix: PREFIX,
      startRevision,
      events: keys,
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
