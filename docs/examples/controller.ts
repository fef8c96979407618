import { Client, op, prefix } from 'etcdwire';
import { fromEnv } from 'etcdwire/node';
import { type LeaderKeyRun, reconcile } from 'etcdwire/recipes';

const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
await using etcd = new Client({ ...fromEnv(), retryWrites: true });
const lead = { name: 'leaders/replicas', value: `process ${process.pid}` };
const owned = [{ keys: prefix('pods/'), ownerOf: (pod: string) => `deployments/${pod.split('/')[1]}` }];
await reconcile(etcd, prefix('deployments/'), { owned, lead, signal: stop.signal }, replicate);

async function replicate({ key, kv, held }: LeaderKeyRun): Promise<void> {
  const [pods, count] = [key.replace('deployments', 'pods'), Number(kv?.text() ?? 0)];
  if (!(count <= 100)) throw new RangeError(`${key} must be a number up to 100`);
  const extra = new Set((await etcd.range(prefix(`${pods}/`))).kvs.map((pod) => pod.key));
  const missing = Array.from({ length: count }, (_, index) => `${pods}/${index}`).filter((pod) => !extra.delete(pod));
  await held.txn({ then: [...missing.map((pod) => op.put(pod, key)), ...[...extra].map((pod) => op.delete(pod))] });
}
