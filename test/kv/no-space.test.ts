import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { EtcdError, prefix } from '../../src/index.js';
import { openClient } from '../support/client.js';
import { ownEtcd } from '../support/own-etcd.js';

const QUOTA_BYTES = 16 * 1024 * 1024;
const AT_ONCE = 8;
const VALUE_BYTES = 500_000;
/** Servers on which no put is at the border just then: one in six. */
const MAX_SERVERS = 8;

// etcd looks at the quota before it proposes a write, and again when it applies it: it does so then, and refuses all the
// same (quotaApplierV3 of its server).
test('a put that the server refuses for want of space may be done: its outcome is unknown', async () => {
  for (let server = 0; server < MAX_SERVERS; server += 1) {
    const { endpoints, stop } = await ownEtcd({ args: [`--quota-backend-bytes=${QUOTA_BYTES}`] });
    const etcd = openClient({ endpoints });
    const refused = await fill((key) => etcd.put(key, randomBytes(VALUE_BYTES)));
    for (const error of refused.values()) expect(error).toMatchObject({ reason: 'NoSpace', outcome: 'unknown' });
    const { kvs } = await etcd.range(prefix('k/'), { keysOnly: true });
    if (kvs.some((kv) => refused.has(kv.keyText()))) return;
    await stop();
  }
  expect.fail('no put was done that was refused');
});

/** Until some are refused: those, with what was said of them. */
async function fill(put: (key: string) => Promise<unknown>): Promise<Map<string, EtcdError>> {
  const refused = new Map<string, EtcdError>();
  for (let count = 0; refused.size === 0; count += AT_ONCE) {
    const keys = Array.from({ length: AT_ONCE }, (_, index) => `k/${count + index}`);
    const errors = await Promise.all(keys.map((key) => put(key).catch((error: unknown) => error)));
    for (const [index, error] of errors.entries())
      if (error instanceof EtcdError) refused.set(keys[index] as string, error);
  }
  return refused;
}
