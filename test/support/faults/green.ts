import { setTimeout as pause } from 'node:timers/promises';
import { type Client, EtcdError } from '../../../src/index.js';

const PROBE_INTERVAL_MS = 50;
const PROBE_TIMEOUT_MS = 3_000;
/** A bound for hangs. */
const GIVE_UP_MS = 60_000;

/** Milliseconds from now until a put succeeds that is begun from now on: one every 50 ms is. */
export async function untilGreen(etcd: Client): Promise<number> {
  const startedAt = performance.now();
  const green = new AbortController();
  const probes: Promise<void>[] = [];
  const probe = async (): Promise<void> => {
    try {
      await etcd.put('green', '', { timeoutMs: PROBE_TIMEOUT_MS, signal: green.signal });
      green.abort();
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
    }
  };
  while (!green.signal.aborted) {
    if (performance.now() - startedAt > GIVE_UP_MS) throw new Error(`no put succeeded within ${GIVE_UP_MS} ms`);
    probes.push(probe());
    await pause(PROBE_INTERVAL_MS, undefined, { signal: green.signal }).catch(() => {});
  }
  const ms = performance.now() - startedAt;
  await Promise.all(probes);
  return ms;
}
