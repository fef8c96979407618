import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { startChild } from '../support/child.js';
import { goProgram } from '../support/go-program.js';
import { ownEtcd } from '../support/own-etcd.js';
import { testedVersions } from '../support/thorough.js';

// The Go program in go-client/main.go uses the operations of Go's clientv3, and its packages leasing, mirror, namespace
// and ordering. It must print the same lines with a real etcd and, in the project `memory`, with a MemoryEtcd.

const LINES = [
  'txn b=3 at 1',
  'txn true etcdserver: duplicate key given in txn request',
  'last a more=true',
  'watch created true',
  'watch DELETE a previous=1',
  'watch PUT a',
  'watch progress true true',
  'watch large events 3',
  'lease granted=2 keys=1',
  'lease etcdserver: requested lease not found 0',
  'namespace k',
  'namespace PUT k=v',
  'ordering v',
  'leasing 2',
  'mirror 3 DELETE',
  'snapshot 0 true',
  'compaction true etcdserver: mvcc: required revision has been compacted',
  'compaction true true etcdserver: mvcc: required revision has been compacted',
  'compaction true etcdserver: mvcc: required revision is a future revision',
];

const AUTH_LINES = [
  'auth true etcdserver: permission denied',
  'auth watch true',
  'auth watch true rpc error: code = PermissionDenied desc = etcdserver: permission denied',
  'auth app/k w',
  'auth etcdserver: authentication failed, invalid user ID or password',
];

let program: Awaited<ReturnType<typeof goProgram>>;

// The time limit is long, because the first run builds the Go program with all its dependencies.
beforeAll(async () => {
  program = await goProgram(join(import.meta.dirname, 'go-client'));
}, 600_000);

/** The versions that both a real etcd and a MemoryEtcd can have. Empty if ETCD_ENDPOINTS is set. */
const versions = process.env.ETCD_ENDPOINTS ? [] : (await testedVersions()).filter((version) => version !== '3.4');

if (versions.length === 0) {
  test("Go's clientv3 sees the behavior of etcd", (context) =>
    context.skip('the program compacts the history and enables authentication, so it needs servers of its own'));
}

describe.each(versions)("Go's clientv3 on etcd %s", (version) => {
  test.for([
    ['runs transactions, watches, leases, wrappers, mirrors and compactions', 'name', LINES],
    ['authenticates, and authenticates again when its token is invalid', 'auth', AUTH_LINES],
  ] as const)('%s', async ([, name, expected], context) => {
    if ('missing' in program) return context.skip(program.missing);
    const { endpoints } = await ownEtcd({ version });
    const child = startChild(program.path, [endpoints[0] as string, name]);
    expect(await child.rest()).toEqual(expected);
    expect(await child.exited).toBe(0);
  });
});
