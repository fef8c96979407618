import { EXPIRING_WAYS, type ExpiringWay } from '../child/expiring.js';
import type { Settings } from '../settings.js';
import type { Workload } from '../workload.js';

export const EXPIRING_GROUP = 'keys that expire';

const KEYS = 50_000;
/** A quick run writes fewer keys by this factor. */
const QUICK_FACTOR = 10;

/** Returns the workload that writes keys with TTLs of 10 to 19 s, and waits until they have expired. */
export function expiringWorkloads({ quick, rounds }: Settings): Workload[] {
  const keys = KEYS / (quick ? QUICK_FACTOR : 1);
  return [
    {
      group: EXPIRING_GROUP,
      variant: `${keys.toLocaleString('en')} keys`,
      competitors: EXPIRING_WAYS,
      rounds,
      // Each measurement runs in a new process, so that it uses no leases and no compiled code of earlier measurements.
      measure: (bench, way) =>
        bench.performInNewProcess('etcdwire', { kind: 'expiring', expiring: { way: way as ExpiringWay, keys } }),
      afterRound: async ({ client }) => {
        const { header } = await client.put('bench/compacted', 'x');
        await client.compact(header.revision, { physical: true });
      },
    },
  ];
}
