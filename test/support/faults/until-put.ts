import { type Client, EtcdError } from '../../../src/index.js';

/** Once the faults are over. */
const LIMIT_MS = 30_000;

/** Repeats a put until it succeeds: of a key whose first event is all that counts. */
export async function untilPut(etcd: Client, key: string): Promise<void> {
  const deadline = performance.now() + LIMIT_MS;
  for (;;) {
    try {
      return void (await etcd.put(key, 'last', { timeoutMs: LIMIT_MS }));
    } catch (error) {
      if (!(error instanceof EtcdError) || performance.now() > deadline) throw error;
    }
  }
}
