import type { Random } from '../simulation/random.js';
import { MEMBERS } from './cluster-control.js';
import type { CallStep } from './step.js';

/** A request to the member at a position. */
export interface MemberCall extends CallStep {
  readonly at: number;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** A change of the cluster, which is settled before the next step. `leader` is the position of the leader afterwards. */
type ClusterFault =
  | { readonly fault: 'cut' | 'kill'; readonly at: number; readonly leader: number }
  | { readonly fault: 'heal' | 'move'; readonly leader: number };

export type ClusterStep = MemberCall | ClusterFault;

/** Number of requests between two faults. */
const MOST_CALLS = 8;
const KEYS = ['a', 'b', 'c'];
const REQUIRE_LEADER = { hasleader: 'true' };

type Call = Omit<MemberCall, 'at'>;

/** Generates a sequence: calls, then a fault, calls during the fault, the end of the fault, and more calls. */
export function clusterSequence(random: Random): readonly ClusterStep[] {
  let leader = 0;
  const steps: ClusterStep[] = [];
  const all = Array.from({ length: MEMBERS }, (_, position) => position);
  const call = (positions: readonly number[], of: (random: Random) => Call = healthyCall): void => {
    for (let count = random.between(1, MOST_CALLS); count > 0; count -= 1)
      steps.push({ at: random.pick(positions), ...of(random) });
  };
  call(all);
  for (let faults = random.between(1, 3); faults > 0; faults -= 1) {
    if (random.chance(0.25)) {
      leader = random.pick(all.filter((position) => position !== leader));
      steps.push({ fault: 'move', leader });
      call(all);
      continue;
    }
    const at = random.chance(0.6) ? leader : random.below(MEMBERS);
    const others = all.filter((position) => position !== at);
    if (at === leader) leader = random.pick(others);
    const fault = random.pick(['cut', 'kill'] as const);
    steps.push({ fault, at, leader });
    call(others);
    if (fault === 'cut') call([at], lonelyCall);
    call(others);
    steps.push({ fault: 'heal', leader });
    call(all);
  }
  return steps;
}

/** A call to a member of a majority. */
function healthyCall(random: Random): Call {
  const key = random.pick(KEYS);
  const value = String(random.below(10));
  const id = random.between(1, 3);
  return random.pick<Call>([
    { rpc: 'kv.put', request: { key, value, prevKv: random.chance(0.5) } },
    { rpc: 'kv.put', request: { key, value, lease: id } },
    { rpc: 'kv.put', request: { key, value }, metadata: REQUIRE_LEADER },
    { rpc: 'kv.range', request: { key } },
    { rpc: 'kv.range', request: { key: 'a', rangeEnd: 'z', serializable: random.chance(0.5) } },
    { rpc: 'kv.deleteRange', request: { key, prevKv: true } },
    { rpc: 'kv.txn', request: swap(key, value) },
    { rpc: 'kv.compact', request: { revision: { current: -random.below(3) } } },
    { rpc: 'lease.leaseGrant', request: { id, ttl: 60 } },
    { rpc: 'lease.leaseGrant', request: { id: 0, ttl: 60 } },
    { rpc: 'lease.leaseRevoke', request: { id } },
    { rpc: 'lease.leaseTimeToLive', request: { id, keys: true } },
    { rpc: 'lease.leaseKeepAlive', request: { id } },
    { rpc: 'lease.leaseLeases', request: {} },
    { rpc: 'lock.lock', request: { name: `lock-${id}`, lease: id } },
    { rpc: 'lock.unlock', request: { key: `lock-${id}/${id}` } },
    { rpc: 'election.leader', request: { name: 'none' } },
    { rpc: 'cluster.memberList', request: { linearizable: true } },
    { rpc: 'maintenance.status', request: {} },
    { rpc: 'maintenance.alarm', request: {} },
    { rpc: 'maintenance.moveLeader', request: { targetId: 5 } },
    { rpc: 'auth.authStatus', request: {} },
    { rpc: 'auth.userList', request: {} },
  ]);
}

/** A call to a member that is cut off. Only some of these calls wait for the time limit of the server. */
function lonelyCall(random: Random): Call {
  const key = random.pick(KEYS);
  const slow: readonly Call[] = [
    { rpc: 'kv.put', request: { key, value: 'lost' } },
    { rpc: 'kv.range', request: { key } },
    { rpc: 'kv.txn', request: swap(key, 'lost') },
    { rpc: 'lease.leaseGrant', request: { id: 9, ttl: 60 } },
    { rpc: 'lease.leaseTimeToLive', request: { id: 1 } },
    { rpc: 'lease.leaseKeepAlive', request: { id: 1 } },
    { rpc: 'lock.lock', request: { name: 'lock', lease: 1 } },
    { rpc: 'election.leader', request: { name: 'none' } },
    { rpc: 'auth.userList', request: {} },
    { rpc: 'cluster.memberList', request: { linearizable: true } },
  ];
  if (random.chance(0.12)) return random.pick(slow);
  return random.pick<Call>([
    { rpc: 'kv.put', request: { key, value: 'lost' }, metadata: REQUIRE_LEADER },
    { rpc: 'kv.range', request: { key }, metadata: REQUIRE_LEADER },
    { rpc: 'kv.range', request: { key: 'a', rangeEnd: 'z', serializable: true } },
    { rpc: 'kv.put', request: { key: '', value: '' } },
    { rpc: 'lease.leaseLeases', request: {} },
    { rpc: 'cluster.memberList', request: {} },
    { rpc: 'maintenance.status', request: {} },
    { rpc: 'maintenance.moveLeader', request: { targetId: 5 } },
  ]);
}

/** A transaction that puts the key if it has no value yet, or else reads it. */
function swap(key: string, value: string): CallStep['request'] {
  return {
    compare: [{ result: 0, target: 1, key, targetUnion: { case: 'createRevision', value: 0 } }],
    success: [{ request: { case: 'requestPut', value: { key, value } } }],
    failure: [{ request: { case: 'requestRange', value: { key } } }],
  };
}
