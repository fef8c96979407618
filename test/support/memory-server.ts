import { runningEtcd } from '../../src/testing/etcd/start-etcd.js';
import { RELEASES } from '../../src/testing/etcd/versions.js';
import {
  listen,
  MemoryEtcd,
  type MemoryEtcdOptions,
  type RunningEtcd,
  type StartEtcdOptions,
} from '../../src/testing/index.js';

// The Vitest projects `memory` and `memory-gateway` run tests on a MemoryEtcd that listens on a port, in place of an
// etcd process.

/** The flags of etcd that tests use, each with the option of a `MemoryEtcd` that has the same effect. */
const FLAGS: Readonly<Record<string, (value: string) => MemoryEtcdOptions>> = {
  '--auth-token-ttl': (value) => ({ tokenTtlSeconds: Number(value) }),
  '--quota-backend-bytes': (value) => ({ quotaBytes: Number(value) }),
  '--max-txn-ops': (value) => ({ maxTxnOps: Number(value) }),
  '--max-request-bytes': (value) => ({ maxRequestBytes: Number(value) }),
  // A MemoryEtcd hashes passwords fast already.
  '--bcrypt-cost': () => ({}),
  // The IDs of a MemoryEtcd are random, so no two clusters have the same ID.
  '--initial-cluster-token': () => ({}),
};

/** Starts a `MemoryEtcd` on a free port. @throws Error if the options need a cluster, a process or another flag. */
export async function startMemoryEtcd({
  members = 1,
  args = [],
  version,
}: StartEtcdOptions = {}): Promise<RunningEtcd> {
  if (members !== 1) throw new Error(`a MemoryEtcd has one member, not ${members}`);
  const options: MemoryEtcdOptions[] = args.map((arg) => {
    const [flag = '', value = ''] = arg.split('=');
    const option = FLAGS[flag];
    if (option === undefined) throw new Error(`a MemoryEtcd has no option for ${flag}`);
    return option(value);
  });
  if (version === '3.4') throw new Error('a MemoryEtcd cannot behave like etcd 3.4');
  const server = new MemoryEtcd(Object.assign({}, { version }, ...options));
  const listener = await listen(server);
  const close = (): Promise<void> => listener.close();
  return runningEtcd([listener.endpoint], close, {
    version: RELEASES[version ?? '3.6'],
  });
}
