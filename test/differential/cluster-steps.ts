import fc from 'fast-check';
import { Random } from '../simulation/random.js';
import { MEMBERS } from './cluster-control.js';
import { call, hugeWatchSteps, kvStep, request, weighted } from './generate-kv.js';
import {
  AUTH_PRELUDE,
  authStep,
  guardedKvStep,
  guardedWatchStep,
  leaseStep,
  maintenanceStep,
  peerUrls,
  watchStep,
  withTokens,
} from './generate-services.js';
import { withKnownEnums } from './sequence.js';
import type { CallStep, FaultStep, Fields, Integer, Step } from './step.js';

// Generates sequences for a cluster: requests to its members, cuts, kills, moves of the leader, and changes of the list
// of members.

/** A step of a sequence for a cluster. */
export type ClusterStep = Step | FaultStep;

/** The number of steps of a sequence, apart from those that enable authentication at its start. */
const STEPS = 30;

/** Steps that follow each other without a fault between them. */
type Group = readonly Step[];

const added = fc.constantFrom<Integer>({ member: MEMBERS }, { member: MEMBERS + 1 });
const anyId = weighted<Integer>(
  [6, added],
  [1, fc.nat({ max: MEMBERS - 1 }).map((member) => ({ member }))],
  [1, fc.constantFrom<Integer>(0, 12_345)],
);

/** Changes the list of members, but never the members with which the cluster has started. */
const memberStep: fc.Arbitrary<Step> = weighted<Step>(
  [5, call('cluster.memberAdd', request({ peerUrls, isLearner: fc.constant(true) }))],
  [3, call('cluster.memberRemove', request({ id: weighted<Integer>([6, added], [1, fc.constantFrom(0, 12_345)]) }))],
  [2, call('cluster.memberUpdate', request({ id: added, peerUrls: fc.constantFrom(['$new'], ['$last']) }))],
  [2, call('cluster.memberPromote', request({ id: anyId }))],
  [3, call('cluster.memberList', request({ linearizable: fc.boolean() }))],
);

const memberSteps: fc.Arbitrary<Group> = fc.array(memberStep, { minLength: 2, maxLength: 4 });

/** Adds a member that votes, and removes it again before the next fault, because the member never starts. */
const VOTER: Group = [
  { rpc: 'cluster.memberAdd', request: { peerUrls: ['$new'] } },
  { rpc: 'cluster.memberList', request: { linearizable: true } },
  { rpc: 'cluster.memberRemove', request: { id: { member: -1 } } },
];

const lock: fc.Arbitrary<Step> = fc
  .integer({ min: 1, max: 3 })
  .chain((id) =>
    fc.constantFrom<Step>(
      { rpc: 'lock.lock', request: { name: `lock-${id}`, lease: id } },
      { rpc: 'lock.unlock', request: { key: `lock-${id}/${id}` } },
    ),
  );

/** Without moves of the leader, because only faults move it, and without the hash of all data, which each member has. */
const maintained = maintenanceStep.filter(({ rpc }) => !['maintenance.moveLeader', 'maintenance.hash'].includes(rpc));

const one = (step: fc.Arbitrary<Step>): fc.Arbitrary<Group> => step.map((only) => [only]);
const asRoot = (group: Group): Group => group.map((step) => ({ ...step, as: 'root' }));

/** Groups of a sequence without authentication. */
const openGroup = weighted<Group>(
  [100, one(kvStep)],
  [60, one(watchStep)],
  [50, one(leaseStep)],
  [9, memberSteps],
  [12, one(maintained)],
  [6, one(lock)],
  [3, hugeWatchSteps],
  [3, fc.constant(VOTER)],
);

/** Groups of a sequence with authentication. */
const guardedGroup = weighted<Group>(
  [60, one(withTokens(guardedKvStep))],
  [40, one(withTokens(authStep))],
  [25, one(withTokens(leaseStep))],
  [25, one(withTokens(guardedWatchStep))],
  [25, one(watchStep).map(asRoot)],
  [3, one(withTokens(memberStep))],
  [9, memberSteps.map(asRoot)],
  [12, one(withTokens(maintained))],
  [3, hugeWatchSteps.map(asRoot)],
  [3, fc.constant(asRoot(VOTER))],
);

/** Generates the sequence of a seed. Sequences with an even seed enable authentication. */
export function clusterSequence(seed: number): readonly ClusterStep[] {
  const isGuarded = seed % 2 === 0;
  const random = new Random(seed);
  const groups = fc.noBias(fc.array(isGuarded ? guardedGroup : openGroup, { minLength: STEPS, maxLength: STEPS }));
  const calls = (fc.sample(groups, { seed, numRuns: 1 })[0] as Group[]).map((group) =>
    withKnownEnums(group).map((step) => withoutReadErrors(step, isGuarded)),
  );
  const all = Array.from({ length: MEMBERS }, (_, position) => position);
  const steps: ClusterStep[] = (isGuarded ? AUTH_PRELUDE : []).map((step) => ({ ...step, at: random.pick(all) }));
  const end = steps.length + STEPS;
  let leader = 0;
  let lost: number | undefined;
  let isCut = false;
  const others = (position: number): number[] => all.filter((each) => each !== position);
  for (let next = 0; steps.length < end; ) {
    if (lost === undefined && random.chance(0.04)) {
      leader = random.pick(others(leader));
      steps.push({ fault: 'move', leader });
    } else if (lost === undefined && random.chance(0.08)) {
      lost = random.chance(0.6) ? leader : random.below(MEMBERS);
      if (lost === leader) leader = random.pick(others(lost));
      isCut = random.chance(0.5);
      steps.push({ fault: isCut ? 'cut' : 'kill', at: lost, leader });
    } else if (lost !== undefined && random.chance(0.2)) {
      lost = undefined;
      steps.push({ fault: 'heal', leader });
    } else if (lost !== undefined && isCut && random.chance(0.3)) {
      const as = isGuarded ? random.pick(['root', 'alice', undefined]) : undefined;
      steps.push({ ...lonelyCall(random), at: lost, ...(as === undefined ? {} : { as }) });
    } else {
      const group = calls[next++ % STEPS] as Group;
      const reachable = lost === undefined ? all : others(lost);
      const { stream = -1 } = group[0] as { readonly stream?: number };
      // Most steps of a stream go to the same member, so that they find the watches of the stream.
      const ofStream = (stream + seed) % MEMBERS;
      const at = stream >= 0 && ofStream !== lost ? ofStream : random.pick(reachable);
      if (lost === undefined || !group.some(dependsOnHealth)) steps.push(...group.map((step) => ({ ...step, at })));
    }
  }
  return lost === undefined ? steps : [...steps, { fault: 'heal', leader }];
}

/** Returns the names under which a report counts a step. */
export function kindsOf(step: ClusterStep): string[] {
  if ('fault' in step) return [step.fault];
  if ('watch' in step && step.watch === 'create') {
    const request = step.request ?? {};
    return ['watch', ...['filters', 'fragment', 'prevKv'].filter((name) => Boolean(request[name]))];
  }
  const isChange = 'rpc' in step && step.rpc.startsWith('cluster.') && step.rpc !== 'cluster.memberList';
  return [isChange ? 'member change' : 'request'];
}

/**
 * Whether a member answers the step in another way, at some time after a fault, than before. etcd notices the loss of a
 * member after up to 5 s, and then refuses new members. A member that is cut off waits for the time limit of a call if its
 * token is newer than the cut: `isValidSimpleToken` in etcd's `auth/simple_token.go`.
 */
function dependsOnHealth(step: Step): boolean {
  return 'rpc' in step && (step.rpc === 'cluster.memberAdd' || step.rpc === 'auth.authenticate');
}

/**
 * Removes the ranges from a transaction that also writes, if authentication is on, or else their revisions. Before etcd
 * 3.7, the member that waits for the result refuses the transaction because of a range with a compacted or future revision
 * or without permission. The other members apply it, so their data differ from then on: etcd issue 18667.
 */
function withoutReadErrors(step: Step, isGuarded: boolean): Step {
  if (!('rpc' in step) || step.rpc !== 'kv.txn') return step;
  const { success = [], failure = [] } = step.request as Record<string, readonly Operation[] | undefined>;
  const isRange = ({ request: { case: name } = {} }: Operation): boolean => name === 'requestRange';
  if ([...success, ...failure].every(isRange)) return step;
  const safe = (operations: readonly Operation[]): readonly Operation[] =>
    isGuarded ? operations.filter((operation) => !isRange(operation)) : operations.map(current);
  const current = (operation: Operation): Operation =>
    isRange(operation)
      ? { request: { case: 'requestRange', value: { ...operation.request?.value, revision: undefined } } }
      : operation;
  return { ...step, request: { ...step.request, success: safe(success), failure: safe(failure) } };
}

/** An operation of a transaction. */
interface Operation {
  readonly request?: { readonly case?: string; readonly value?: Fields };
}

/** A call to a member that is cut off. Only some of these calls wait for the time limit of the server. */
function lonelyCall(random: Random): CallStep {
  const key = random.pick(['a', 'b', 'c']);
  const slow: readonly CallStep[] = [
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
  return random.pick<CallStep>([
    { rpc: 'kv.put', request: { key, value: 'lost' }, requiresLeader: true },
    { rpc: 'kv.range', request: { key }, requiresLeader: true },
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
