import { Client, op } from 'etcdwire';
import { withLock } from 'etcdwire/locks';
import { fromEnv } from 'etcdwire/node';

// One client for all invocations of an instance of the function, which AWS Lambda freezes between them.
const etcd = new Client({ ...fromEnv(), timeoutMs: 5_000 });

export async function handler({ order }: { readonly order: string }): Promise<string> {
  return withLock(etcd, `orders/${order}/lock`, { ttl: 10, maxWaitMs: 5_000 }, async (held) => {
    const billed = await etcd.get(`orders/${order}/billed`);
    if (billed !== undefined) return `billed before, at ${billed.text()}`;
    const now = new Date().toISOString();
    await held.txn({ then: [op.put(`orders/${order}/billed`, now)] });
    return `billed at ${now}`;
  });
}
