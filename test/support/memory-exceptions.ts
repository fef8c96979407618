import { beforeEach } from 'vitest';

// The tests of the projects `memory` and `memory-gateway` that cannot pass on a MemoryEtcd, each with the reason. The
// Vitest configuration loads this file before each test file of these projects.

const ONE_MEMBER = 'a MemoryEtcd is a cluster of one member';
const NO_PROCESS = 'a MemoryEtcd is not a process that can be suspended';

/** Patterns of full test names, which include the names of the `describe` blocks. */
const EXCEPTIONS: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [/^`memberList` (needs a quorum|returns the same members from every endpoint)/, ONE_MEMBER],
  [/^`sync` (finds all members|leaves out endpoints|runs every `autoSync)/, ONE_MEMBER],
  [/^`sync` keeps the configured endpoints/, 'a MemoryEtcd always advertises the URL of its port'],
  [/`balance: round-robin` (send|never|writes)/, ONE_MEMBER],
  [/^`setEndpoints` (moves|lets)/, ONE_MEMBER],
  [/^`moveLeader` (finds the leader|rejects with NotLeader)/, ONE_MEMBER],
  [/^`status` (returns the status of the member|rejects when the member at the given endpoint is down)/, ONE_MEMBER],
  [/^a hash of the keys is the same on all members/, ONE_MEMBER],
  [/^a transaction with a write and a read that one member of three refuses/, ONE_MEMBER],
  [/^etcdwire `lock` exits with the command's exit code even if etcdwire cannot revoke/, NO_PROCESS],
  [/^etcdwire mirror with a restored cluster/, 'a MemoryEtcd has no data folder that a test can restore'],
  [/^`history` rejects with `ClusterChanged`/, 'a MemoryEtcd has no data folder that a test can restore'],
  [/^a snapshot can be restored by etcdctl/, 'a MemoryEtcd has no etcdctl'],
  [/^a put that rejects with NoSpace has outcome unknown/, 'a MemoryEtcd never applies a put that it refuses'],
];

beforeEach((context) => {
  const names: string[] = [];
  for (let task: { readonly name: string; readonly suite?: unknown } | undefined = context.task; task; ) {
    names.unshift(task.name);
    task = task.suite as typeof task;
  }
  const name = names.join(' ');
  const exception = EXCEPTIONS.find(([pattern]) => pattern.test(name));
  if (exception !== undefined) context.skip(exception[1]);
});
