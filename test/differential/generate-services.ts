import fc from 'fast-check';
import {
  call,
  deleteRange,
  key,
  kvStep,
  leaseId,
  put,
  range,
  rangeEnd,
  rare,
  request,
  revision,
  txn,
  weighted,
} from './generate-kv.js';
import { type CallStep, type Fields, type Integer, rpcOf, type Step } from './step.js';

// Generates steps of the services besides KV.

const yes = fc.constant(true);

const ttl: fc.Arbitrary<Integer> = weighted<Integer>(
  [10, fc.constantFrom(60, 100, 1_000)],
  [1, fc.constantFrom<Integer>('9000000000', '9000000001', '9223372036854775807')],
);

const grant = call(
  'lease.leaseGrant',
  request({
    id: weighted<Integer>(
      [10, fc.constantFrom(1, 2, 3)],
      [4, fc.constant(0)],
      [1, fc.constantFrom<Integer>(-7, '1099511627775')],
    ),
    ttl,
  }),
);

const keepAlive: fc.Arbitrary<Step> = fc.record(
  { keepAlive: leaseId, stream: fc.nat({ max: 1 }) },
  { noNullPrototype: true },
);

export const leaseStep: fc.Arbitrary<Step> = weighted<Step>(
  [6, grant],
  [3, call('lease.leaseRevoke', request({ id: leaseId }))],
  [4, call('lease.leaseTimeToLive', request({ id: leaseId, keys: rare(yes, 0.5) }))],
  [3, call('lease.leaseLeases', request({}))],
  [3, keepAlive],
);

/** Grants a lease that expires during the sequence, attaches keys to it, and waits for its end. */
export const expiringSteps: fc.Arbitrary<Step[]> = fc
  .tuple(fc.constantFrom(0, 1, 2, -1), fc.array(kvStep, { maxLength: 4 }), fc.boolean())
  .map(([granted, steps, renewed]): Step[] => [
    { rpc: 'lease.leaseGrant', request: { id: 5, ttl: granted } },
    { rpc: 'kv.put', request: { key: 'c', value: 'x', lease: 5 } },
    { rpc: 'kv.put', request: { key: 'a', value: 'x', lease: 5 } },
    ...steps,
    ...(renewed ? [{ keepAlive: 5, stream: 0 }] : []),
    { expire: 5 },
    { rpc: 'lease.leaseTimeToLive', request: { id: 5, keys: true } },
    { rpc: 'kv.range', request: { key: '\0', rangeEnd: '\0' } },
  ]);

const watchId = weighted<Integer>(
  [10, fc.constant(0)],
  [4, fc.integer({ min: 1, max: 4 })],
  [1, fc.constantFrom<Integer>(-5, 7)],
);

const watchCreate = request({
  key,
  rangeEnd: rare(rangeEnd, 0.6),
  startRevision: rare(revision, 0.3),
  progressNotify: rare(yes, 0.1),
  filters: rare(fc.array(weighted([8, fc.nat({ max: 1 })], [1, fc.constantFrom(2, -1)]), { maxLength: 2 }), 0.2),
  prevKv: rare(yes, 0.4),
  watchId: rare(watchId, 0.3),
  fragment: rare(yes, 0.1),
});

const stream = fc.nat({ max: 1 });

export const watchStep: fc.Arbitrary<Step> = weighted<Step>(
  [12, fc.tuple(stream, watchCreate).map(([at, fields]): Step => ({ watch: 'create', stream: at, request: fields }))],
  [
    4,
    fc
      .tuple(stream, weighted<Integer>([8, fc.nat({ max: 4 })], [1, fc.constantFrom<Integer>(99, -1)]))
      .map(([at, id]): Step => ({ watch: 'cancel', stream: at, request: { watchId: id } })),
  ],
  [2, stream.map((at): Step => ({ watch: 'progress', stream: at }))],
  [1, stream.map((at): Step => ({ watch: 'close', stream: at }))],
);

/**
 * The lease of a contender, and the name of its queue. A contender whose lease the server chooses has its own queue,
 * because the lease ID is random, and so is the position of the key between other keys.
 */
function contender(name: fc.Arbitrary<string>, ownName: string): fc.Arbitrary<Fields> {
  return weighted<Fields>(
    [13, request({ name, lease: weighted<Integer>([12, fc.constantFrom(1, 2, 3)], [1, fc.constant(99)]) })],
    [1, fc.constant({ name: ownName, lease: 0 })],
  );
}

const lockName = weighted([12, fc.constantFrom('L')], [2, fc.constantFrom('M')], [1, fc.constantFrom('', 'b')]);
const electionName = weighted([12, fc.constant('E')], [2, fc.constant('F')], [1, fc.constant('')]);
const leader = weighted<unknown>(
  [10, fc.nat({ max: 2 }).map((campaign) => ({ campaign }))],
  [1, fc.constant(undefined)],
  [
    2,
    fc.constantFrom({ name: 'E', key: 'E/1', rev: 1, lease: 1 }, { name: 'E', key: 'E/2', rev: { base: 1 }, lease: 9 }),
  ],
);

export const queueStep: fc.Arbitrary<Step> = weighted<Step>(
  [5, call('lock.lock', contender(lockName, 'M'))],
  [
    5,
    call(
      'lock.unlock',
      request({
        key: weighted<unknown>(
          [8, fc.nat({ max: 3 }).map((lockKey) => ({ lockKey }))],
          [2, fc.constantFrom('L/1', 'L/2')],
          [1, fc.constant('')],
        ),
      }),
    ),
  ],
  [
    5,
    call(
      'election.campaign',
      fc
        .tuple(contender(electionName, 'F'), fc.constantFrom('x', 'y', ''))
        .map(([fields, value]) => ({ ...fields, value })),
    ),
  ],
  [4, call('election.proclaim', request({ leader, value: fc.constantFrom('x', 'p', '') }))],
  [3, call('election.leader', request({ name: electionName }))],
  [4, call('election.resign', request({ leader }))],
  [2, electionName.map((observe): Step => ({ observe }))],
);

const user = weighted(
  [10, fc.constantFrom('alice', 'bob')],
  [3, fc.constant('root')],
  [1, fc.constantFrom('', 'nobody')],
);
const role = weighted(
  [10, fc.constantFrom('reader', 'writer')],
  [3, fc.constant('root')],
  [1, fc.constantFrom('', 'none')],
);
const password = weighted([8, fc.constant('pw')], [2, fc.constantFrom('', 'other')]);
/** A bcrypt hash that no password of these sequences matches. */
const HASH = '$2a$04$ldplqA5AGwBazlNa3BWJMuKzXrv/GV5yOuBIqUDa4UVo19k/w9RZ6';
const notRoot = weighted([10, fc.constantFrom('alice', 'bob')], [1, fc.constantFrom('', 'carol')]);

const userAdd = weighted<CallStep>(
  [2, fc.constant<CallStep>({ rpc: 'auth.userAdd', request: { name: 'root', password: 'root' } })],
  [6, call('auth.userAdd', request({ name: notRoot, password }))],
  [
    1,
    call(
      'auth.userAdd',
      request({ name: notRoot, password: rare(password), options: rare(fc.record({ noPassword: fc.boolean() }), 0.6) }),
    ),
  ],
  [1, call('auth.userAdd', request({ name: notRoot, hashedPassword: fc.constantFrom(HASH, '', 'not a hash') }))],
);

const permission = request({
  permType: weighted([12, fc.nat({ max: 2 })], [1, fc.constantFrom(3, -1)]),
  key: weighted([20, key], [2, fc.constant('\0')], [1, fc.constant('')]),
  rangeEnd: rare(rangeEnd, 0.5),
});

const ignored: CallStep['request'] = {};

export const authStep: fc.Arbitrary<Step> = weighted<Step>(
  [4, userAdd],
  [3, call('auth.userGet', request({ name: user }))],
  [2, fc.constant<CallStep>({ rpc: 'auth.userList', request: ignored })],
  [2, call('auth.userDelete', request({ name: user }))],
  [
    2,
    weighted<CallStep>(
      [6, call('auth.userChangePassword', request({ name: notRoot, password }))],
      [
        1,
        call(
          'auth.userChangePassword',
          request({ name: notRoot, hashedPassword: fc.constantFrom(HASH, '', 'not a hash') }),
        ),
      ],
      [1, fc.constant<CallStep>({ rpc: 'auth.userChangePassword', request: { name: 'root', password: 'root' } })],
    ),
  ],
  [4, call('auth.userGrantRole', request({ user, role }))],
  [2, call('auth.userRevokeRole', request({ name: user, role }))],
  [4, call('auth.roleAdd', request({ name: role }))],
  [3, call('auth.roleGet', request({ role }))],
  [2, fc.constant<CallStep>({ rpc: 'auth.roleList', request: ignored })],
  [2, call('auth.roleDelete', request({ role }))],
  [6, call('auth.roleGrantPermission', request({ name: role, perm: rare(permission, 0.95) }))],
  [3, call('auth.roleRevokePermission', request({ role, key, rangeEnd: rare(rangeEnd, 0.4) }))],
  [
    8,
    call(
      'auth.authenticate',
      request({ name: user, password: weighted([8, fc.constant('pw')], [3, fc.constant('root')], [1, password]) }),
    ),
  ],
  [2, fc.constant<CallStep>({ rpc: 'auth.authStatus', request: ignored })],
  [2, fc.constant<CallStep>({ rpc: 'auth.authEnable', request: ignored })],
  [1, fc.constant<CallStep>({ rpc: 'auth.authDisable', request: ignored })],
);

/** Creates users and roles, enables authentication, and obtains a token of each user. */
export const AUTH_PRELUDE: readonly Step[] = [
  { rpc: 'auth.userAdd', request: { name: 'root', password: 'root' } },
  { rpc: 'auth.roleAdd', request: { name: 'root' } },
  { rpc: 'auth.userGrantRole', request: { user: 'root', role: 'root' } },
  { rpc: 'auth.userAdd', request: { name: 'alice', password: 'pw' } },
  { rpc: 'auth.userAdd', request: { name: 'bob', password: 'pw' } },
  { rpc: 'auth.roleAdd', request: { name: 'reader' } },
  { rpc: 'auth.roleAdd', request: { name: 'writer' } },
  { rpc: 'auth.roleGrantPermission', request: { name: 'reader', perm: { permType: 0, key: 'a', rangeEnd: 'c' } } },
  { rpc: 'auth.roleGrantPermission', request: { name: 'writer', perm: { permType: 2, key: 'b', rangeEnd: '\0' } } },
  { rpc: 'auth.userGrantRole', request: { user: 'alice', role: 'reader' } },
  { rpc: 'auth.userGrantRole', request: { user: 'bob', role: 'writer' } },
  { rpc: 'auth.authEnable', request: {} },
  { rpc: 'auth.authenticate', request: { name: 'root', password: 'root' } },
  { rpc: 'auth.authenticate', request: { name: 'alice', password: 'pw' } },
  { rpc: 'auth.authenticate', request: { name: 'bob', password: 'pw' } },
];

/**
 * Adds to each step the token of a user, no token, or a token that no server has issued. An `ExpireStep` gets no token.
 */
export function withTokens(steps: fc.Arbitrary<Step>): fc.Arbitrary<Step> {
  const caller = weighted<string | undefined>(
    [10, fc.constant('root')],
    [8, fc.constantFrom('alice', 'bob')],
    [2, fc.constant(undefined)],
    [1, fc.constant('?')],
  );
  return fc.tuple(steps, caller).map(([given, as]) => {
    const step = rpcOf(given).startsWith('auth.') ? given : withoutInvertedRanges(given);
    return as === undefined || 'expire' in step ? step : { ...step, as };
  });
}

/**
 * Removes range ends that are not after their key. Whether etcd permits such a range to a user depends on the shape of
 * a search tree, and so on the order in which etcd has read the permissions of the user: see `visit` in
 * `pkg/adt/interval_tree.go`.
 */
function withoutInvertedRanges(step: Step): Step {
  const text = JSON.stringify(step, (_, value: unknown) => {
    const { key: first, rangeEnd: end } = (value ?? {}) as { readonly key?: unknown; readonly rangeEnd?: unknown };
    if (typeof first !== 'string' || typeof end !== 'string') return value;
    return end === '' || end === '\0' || end > first ? value : { ...(value as Fields), rangeEnd: undefined };
  });
  return JSON.parse(text) as Step;
}

/**
 * Watches without a start revision. For a watch that starts at a future revision, the test would also watch
 * `SENTINEL_KEY`, which the user may not be permitted to read.
 */
export const guardedWatchStep: fc.Arbitrary<Step> = fc
  .tuple(stream, request({ key, rangeEnd: rare(rangeEnd, 0.6), prevKv: rare(yes), watchId: rare(watchId, 0.2) }))
  .map(([at, fields]): Step => ({ watch: 'create', stream: at, request: fields }));

export const guardedKvStep: fc.Arbitrary<Step> = weighted<Step>(
  [6, call('kv.put', put)],
  [5, call('kv.range', range)],
  [3, call('kv.deleteRange', deleteRange)],
  [4, call('kv.txn', txn)],
  [1, call('kv.rangeStream', range)],
  [1, call('kv.compact', request({ revision: fc.constant({ current: 0 }) }))],
);

const memberId = weighted<Integer>(
  [4, fc.nat({ max: 2 }).map((member) => ({ member }))],
  [1, fc.constantFrom<Integer>(0, 12_345)],
);
/**
 * "$new" is a URL that no member has had, because etcd derives the ID of a member from its URL and the current second,
 * and never accepts the ID of a removed member again. "$last" is the URL of the last learner. "$peerUrl" is the URL of
 * the member that answers.
 */
export const peerUrls = weighted<string[]>(
  [8, fc.constant(['$new'])],
  [
    1,
    fc.constantFrom<string[]>(
      [],
      ['$peerUrl'],
      ['$last'],
      ['not a url'],
      ['http://127.0.0.1'],
      ['$new', '$new'],
      ['ftp://127.0.0.1:3'],
    ),
  ],
);

/** Never adds a voting member, because the server would lose its quorum. */
export const clusterStep: fc.Arbitrary<CallStep> = weighted<CallStep>(
  [4, call('cluster.memberAdd', request({ peerUrls, isLearner: yes }))],
  [2, call('cluster.memberAdd', request({ peerUrls: fc.constantFrom(['not a url'], []) }))],
  [
    3,
    call(
      'cluster.memberRemove',
      request({
        id: weighted<Integer>(
          [4, fc.constantFrom({ member: 1 }, { member: 2 }, { member: 0 })],
          [1, fc.constantFrom<Integer>(0, 12_345)],
        ),
      }),
    ),
  ],
  // A learner gets valid URLs only, because etcd 3.6 ends if it cannot parse the URL of another member.
  [1, call('cluster.memberUpdate', request({ id: fc.constantFrom({ member: 0 }, 0, 12_345), peerUrls }))],
  [
    2,
    call(
      'cluster.memberUpdate',
      request({ id: memberId, peerUrls: fc.constantFrom(['$new'], ['$last'], ['$peerUrl']) }),
    ),
  ],
  [3, call('cluster.memberList', request({ linearizable: rare(yes, 0.5) }))],
  [3, call('cluster.memberPromote', request({ id: memberId }))],
);

export const maintenanceStep: fc.Arbitrary<CallStep> = weighted<CallStep>(
  [
    10,
    call(
      'maintenance.alarm',
      request({
        // The action is never unknown, because an unknown action ends the process of etcd 3.6.
        action: fc.nat({ max: 2 }),
        memberId: rare(memberId, 0.6),
        alarm: weighted([12, fc.nat({ max: 2 })], [1, fc.constantFrom(3, -1)]),
      }),
    ),
  ],
  [4, call('maintenance.status', request({}))],
  [1, call('maintenance.defragment', request({}))],
  [1, call('maintenance.hash', request({}))],
  [4, call('maintenance.hashKv', request({ revision: rare(revision, 0.7) }))],
  [1, call('maintenance.snapshot', request({}))],
  [2, call('maintenance.moveLeader', request({ targetId: memberId }))],
  [
    2,
    call(
      'maintenance.downgrade',
      request({
        action: weighted([8, fc.nat({ max: 2 })], [1, fc.constantFrom(3, -1)]),
        // The server accepts none of these versions. Otherwise, it would change its state at an unknown time.
        version: fc.constantFrom('', '3', '3.2', '3.3.0', '3.9', 'x', '4.0', '3.3.1'),
      }),
    ),
  ],
);

/** Starts a downgrade, and cancels it at once, because the server changes its version soon after the start. */
export const downgradeSteps: fc.Arbitrary<readonly Step[]> = fc.constantFrom('3.4.0', '3.5.0', '3.6.0').map((version) =>
  [
    { action: 1, version },
    { action: 0, version },
    { action: 2, version: '' },
  ].map((fields): Step => ({ rpc: 'maintenance.downgrade', request: fields })),
);
