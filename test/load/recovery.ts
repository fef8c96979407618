import { setTimeout as pause } from 'node:timers/promises';
import { type Client, EtcdError } from '../../src/index.js';

const PROBE_INTERVAL_MS = 50;
const PROBE_TIMEOUT_MS = 3_000;
/** The time in milliseconds after which `recoveryTime` rejects, so that a test does not hang. */
const PROBES_TIMEOUT_MS = 60_000;

/**
 * Starts a put every 50 ms until one of these puts succeeds. Resolves with the time from the call of this function to
 * that success, in milliseconds.
 */
export async function recoveryTime(etcd: Client): Promise<number> {
  const startedAt = performance.now();
  const recovered = new AbortController();
  const probes: Promise<void>[] = [];
  const probe = async (): Promise<void> => {
    try {
      await etcd.put('probe', '', { timeoutMs: PROBE_TIMEOUT_MS, signal: recovered.signal });
      recovered.abort();
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
    }
  };
  while (!recovered.signal.aborted) {
    if (performance.now() - startedAt > PROBES_TIMEOUT_MS)
      throw new Error(`no put succeeded within ${PROBES_TIMEOUT_MS} ms`);
    probes.push(probe());
    await pause(PROBE_INTERVAL_MS, undefined, { signal: recovered.signal }).catch(() => {});
  }
  const ms = performance.now() - startedAt;
  await Promise.all(probes);
  return ms;
}

/**
 * The time limit in milliseconds of each put of `putUntilSuccess`. After the same time, `putUntilSuccess` no longer
 * repeats a put that fails.
 */
const PUT_TIMEOUT_MS = 30_000;

/**
 * Repeats a put until it succeeds. The server may also have applied failed attempts, so the key may have several
 * events: the caller must look only at the first event.
 */
export async function putUntilSuccess(etcd: Client, key: string): Promise<void> {
  const deadline = performance.now() + PUT_TIMEOUT_MS;
  for (;;) {
    try {
      return void (await etcd.put(key, 'last', { timeoutMs: PUT_TIMEOUT_MS }));
    } catch (error) {
      if (!(error instanceof EtcdError) || performance.now() > deadline) throw error;
    }
  }
}

/** Runs an action and ignores its EtcdErrors, because calls may fail while a fault lasts. */
export async function ignoringEtcdErrors(act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
  }
}
