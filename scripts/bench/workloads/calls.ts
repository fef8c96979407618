import type { Bench } from '../bench.js';
import { calledKeys } from '../child/keys.js';
import type { Work } from '../child/task.js';
import { CONTENDERS, type ContenderName } from '../contenders/open-contender.js';
import type { Settings } from '../settings.js';
import type { Workload } from './workload.js';

const KINDS = ['get', 'put', 'txn'] as const;
export type CallKind = (typeof KINDS)[number];

const SIZES = { 100: '100-byte', 100000: '100-kB' } as const;
/** In bytes. */
export type ValueBytes = keyof typeof SIZES;

export function callGroup(kind: CallKind, valueBytes: ValueBytes): string {
  return `${kind} of ${SIZES[valueBytes]} values`;
}

export function inFlightVariant(inFlight: number): string {
  return `${inFlight} in flight`;
}

/** Gets, puts and transactions at different numbers in flight and with different values. */
export function callWorkloads(settings: Settings): Workload[] {
  return ([100, 100_000] as const).flatMap((valueBytes) =>
    KINDS.flatMap((kind) =>
      settings.inFlight[valueBytes].map((inFlight) => callWorkload(kind, valueBytes, inFlight, settings)),
    ),
  );
}

function callWorkload(
  kind: CallKind,
  valueBytes: ValueBytes,
  inFlight: number,
  settings: Settings,
): Workload<ContenderName> {
  const work: Work = { kind, valueBytes };
  return {
    group: callGroup(kind, valueBytes),
    variant: inFlightVariant(inFlight),
    contenders: CONTENDERS,
    rounds: settings.rounds,
    prepare: async (bench) => {
      await putValues(bench, valueBytes);
      const { warmUpSeconds, firstWarmUp } = settings;
      if (bench.once('warm-up')) await bench.performAll(CONTENDERS, { kind: 'calls', work, limits: firstWarmUp });
      await bench.performAll(CONTENDERS, { kind: 'calls', work, limits: { inFlight, seconds: warmUpSeconds } });
    },
    measure: (bench, contender) =>
      bench.perform(contender, { kind: 'calls', work, limits: { inFlight, seconds: settings.seconds } }),
    afterRound: async (bench) => {
      if (kind !== 'get') await forgetHistory(bench);
    },
  };
}

/** The keys that gets read and transactions ask for. */
export async function putValues(bench: Bench, valueBytes: ValueBytes): Promise<void> {
  if (!bench.once(`values of ${valueBytes} bytes`)) return;
  const value = Buffer.alloc(valueBytes, 'v');
  for (const key of calledKeys(valueBytes)) await bench.client.put(key, value);
}

/** Keeps the store small: it holds each value that was ever put until it is compacted. */
async function forgetHistory({ client }: Bench): Promise<void> {
  const { header } = await client.range('bench/', { countOnly: true });
  await client.compact(header.revision, { physical: true });
}
