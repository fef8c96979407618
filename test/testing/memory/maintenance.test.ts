import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { concatBytes } from '../../../src/base/bytes.js';
import { AlarmAction, AlarmType, DowngradeAction } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { registerAuth } from '../../../src/testing/memory/auth-service.js';
import { registerCluster } from '../../../src/testing/memory/cluster-service.js';
import { Crc32c } from '../../../src/testing/memory/crc32c.js';
import { registerMaintenance } from '../../../src/testing/memory/maintenance-service.js';
import { StatusError, serverError, unaryRoute } from '../../../src/testing/memory/service.js';
import type { MemberSettings } from '../../../src/testing/memory/settings.js';
import { parseSnapshot, restoreSnapshot, takeSnapshot } from '../../../src/testing/memory/snapshot.js';
import { ServiceBench, utf8 } from '../../support/memory-services.js';

const { alarm, defragment, downgrade, hash, hashKv, moveLeader, snapshot, status } = methods.maintenance;
const DIGEST_BYTES = 32;
const MONITOR_INTERVAL_MS = 4_000;

function openBench(settings: Partial<MemberSettings> = {}): ServiceBench {
  const bench = new ServiceBench(settings);
  for (const register of [registerMaintenance, registerCluster, registerAuth]) register(bench.router, bench.member);
  return bench;
}

/** Downloads a snapshot. Returns the bytes, and the versions and numbers of remaining bytes of its responses. */
function download(bench: ServiceBench): {
  readonly bytes: Uint8Array;
  readonly remaining: readonly bigint[];
  readonly versions: ReadonlySet<string>;
} {
  const stream = bench.open(snapshot);
  stream.send({});
  stream.halfClose();
  expect(stream.ended).toBe('ok');
  const responses = stream.take();
  return {
    bytes: concatBytes(...responses.map(({ blob }) => blob)),
    remaining: responses.map(({ remainingBytes }) => remainingBytes),
    versions: new Set(responses.map(({ version }) => version)),
  };
}

describe("MemoryEtcd's Alarm", () => {
  test('raises, lists and clears the alarms of each member', () => {
    const bench = openBench();
    const { NOSPACE, CORRUPT, NONE } = AlarmType;
    const request = (action: AlarmAction, memberId = 0n, kind: AlarmType = NONE) =>
      bench.call(alarm, { action, memberId, alarm: kind }).alarms;
    expect(request(AlarmAction.ACTIVATE, 5n, NOSPACE)).toEqual([{ memberId: 5n, alarm: NOSPACE }]);
    expect(request(AlarmAction.ACTIVATE, 5n, NOSPACE)).toEqual([{ memberId: 5n, alarm: NOSPACE }]);
    expect(request(AlarmAction.ACTIVATE, 0n, NOSPACE)).toEqual([{ memberId: 0n, alarm: NOSPACE }]);
    expect(request(AlarmAction.ACTIVATE, 5n, CORRUPT)).toEqual([{ memberId: 5n, alarm: CORRUPT }]);
    expect(request(AlarmAction.ACTIVATE, 5n, NONE)).toEqual([]);
    expect(request(AlarmAction.GET)).toHaveLength(3);
    expect(request(AlarmAction.GET, 7n, CORRUPT)).toEqual([{ memberId: 5n, alarm: CORRUPT }]);
    expect(request(AlarmAction.DEACTIVATE, 5n, NOSPACE)).toEqual([{ memberId: 5n, alarm: NOSPACE }]);
    expect(request(AlarmAction.DEACTIVATE, 5n, NOSPACE)).toEqual([]);
    expect(bench.member.alarms.isInEffect('NOSPACE')).toBe(true);
    request(AlarmAction.DEACTIVATE, 0n, NOSPACE);
    expect(bench.member.alarms.isInEffect('NOSPACE')).toBe(false);
    expect(bench.member.alarms.isInEffect('CORRUPT')).toBe(true);
  });

  test('of version 3.5 ends the effect of the other kind when a client raises an alarm', () => {
    const { alarms } = openBench({ version: '3.5' }).member;
    const effects = () => [alarms.isInEffect('NOSPACE'), alarms.isInEffect('CORRUPT')];
    alarms.add('NOSPACE');
    alarms.add('CORRUPT');
    expect(effects()).toEqual([false, true]);
    alarms.restart();
    expect(effects()).toEqual([true, true]);
    const [nospace] = alarms.list(AlarmType.NOSPACE);
    alarms.clear(nospace?.memberId ?? 0n, AlarmType.NOSPACE);
    expect(effects()).toEqual([false, false]);
  });
});

describe("MemoryEtcd's Status", () => {
  test.for([
    ['3.5', { version: '3.5.33', storageVersion: '', dbSizeQuota: 0n, downgradeInfo: undefined }, ' '],
    ['3.6', { version: '3.6.14', storageVersion: '3.6.0', dbSizeQuota: 1n << 31n }, ' '],
    ['3.7', { version: '3.7.1', storageVersion: '3.7.0', dbSizeQuota: 1n << 31n }, ''],
  ] as const)('has the fields of etcd %s', ([version, expected, end]) => {
    const bench = openBench({ version });
    const { alarms, memberId, raftTerm } = bench.member;
    alarms.raise(7n, AlarmType.CORRUPT);
    alarms.raise(0n, AlarmType.NOSPACE);
    const response = bench.call(status, {});
    expect(response).toMatchObject({
      ...expected,
      header: bench.member.header(),
      leader: memberId,
      raftTerm,
      isLearner: false,
      errors: [`memberID:7 alarm:CORRUPT${end}`, `alarm:NOSPACE${end}`],
    });
    if (version !== '3.5') expect(response.downgradeInfo).toEqual({ enabled: false, targetVersion: '' });
  });

  test('shows a database that shrinks only when it is defragmented', () => {
    const bench = openBench();
    const { dbSize: empty } = bench.call(status, {});
    bench.write({ a: 'x'.repeat(100_000) });
    bench.write({ a: 'y' });
    const full = bench.call(status, {}).dbSize;
    expect(full).toBeGreaterThan(empty + 100_000n);
    bench.member.store.compact(3n);
    expect(bench.call(status, {}).dbSize).toBe(full);
    expect(bench.call(status, {}).dbSizeInUse).toBeLessThan(full - 90_000n);
    expect(bench.call(defragment, {})).toEqual({ header: undefined });
    expect(bench.call(status, {}).dbSize).toBeLessThan(full - 90_000n);
  });
});

describe('Crc32c', () => {
  test('computes the CRCs in the examples of RFC 3720', () => {
    expect(new Crc32c().update(new Uint8Array(32)).digest()).toBe(0x8a9136aa);
    expect(new Crc32c().update(utf8('1234')).update(utf8('56789')).digest()).toBe(0xe3069283);
  });
});

describe("MemoryEtcd's HashKV", () => {
  /** Makes five revisions. The hashes below come from etcd 3.6.14, after the same requests. */
  function openWithKeys(settings: Partial<MemberSettings> = {}): ServiceBench {
    const bench = openBench(settings);
    bench.write({ a: '1' });
    bench.write({ a: '2', b: '1', c: '1' });
    bench.write({ b: undefined });
    bench.write({ c: '2', a: undefined });
    bench.write({ d: '1' });
    return bench;
  }
  /** The hashes of the revisions 0 to 6, before a compaction. */
  const BEFORE = [980216453, 1084519789, 2587454935, 713912513, 2981340827, 1179435391, 980216453];
  /** The hashes of some revisions, after a compaction to revision 4. */
  const AFTER = [
    [0n, 1544269956],
    [5n, 3928647984],
    [6n, 1544269956],
  ] as const;
  /** The hash of revision 4 after a compaction to this revision and a restart. */
  const AFTER_RESTART = 488911490;

  test('equals the hash of etcd at each revision', () => {
    const bench = openWithKeys();
    for (const [revision, expected] of BEFORE.entries()) {
      const response = bench.call(hashKv, { revision: BigInt(revision) });
      const hashRevision = revision === 0 ? 6n : BigInt(revision);
      expect(response).toMatchObject({ hash: expected, compactRevision: -1n, hashRevision });
    }
  });

  test('equals the hash of etcd after a compaction to a tombstone', () => {
    const bench = openWithKeys();
    bench.member.store.compact(4n);
    for (const [revision, expected] of AFTER)
      expect(bench.call(hashKv, { revision })).toMatchObject({ hash: expected });
    // etcd keeps the hash that it has computed for the compaction. This hash begins at the previous compaction.
    expect(bench.call(hashKv, { revision: 4n })).toMatchObject({ hash: BEFORE[4], compactRevision: -1n });
    expect(() => bench.call(hashKv, { revision: 3n })).toThrow(serverError('Compacted'));
    expect(() => bench.call(hashKv, { revision: 7n })).toThrow(serverError('FutureRev'));
    bench.member.keyHashes.reset();
    expect(bench.call(hashKv, { revision: 4n })).toMatchObject({ hash: AFTER_RESTART, compactRevision: 4n });
  });

  test('has no hashed revision in etcd 3.5', () => {
    expect(openWithKeys({ version: '3.5' }).call(hashKv, {}).hashRevision).toBe(0n);
  });
});

describe("MemoryEtcd's Hash", () => {
  test('changes with the data', () => {
    const bench = openBench();
    const { hash: before } = bench.call(hash, {});
    expect(bench.call(hash, {}).hash).toBe(before);
    bench.write({ a: '1' });
    expect(bench.call(hash, {}).hash).not.toBe(before);
  });
});

describe("MemoryEtcd's Snapshot", () => {
  test('ends with the SHA-256 digest of its other bytes, whose number is a multiple of 512', () => {
    const bench = openBench();
    bench.write({ a: 'x'.repeat(100_000) });
    const { bytes, remaining, versions } = download(bench);
    const [content, digest] = [bytes.subarray(0, -DIGEST_BYTES), bytes.subarray(-DIGEST_BYTES)];
    expect([...digest]).toEqual([...createHash('sha256').update(content).digest()]);
    expect(content.length % 512).toBe(0);
    expect(remaining.slice(0, -1)).toEqual(
      Array.from({ length: remaining.length - 1 }, (_, chunk) =>
        BigInt(Math.max(0, content.length - (chunk + 1) * 32_768)),
      ),
    );
    expect(remaining.at(-1)).toBe(0n);
    expect(versions).toEqual(new Set(['3.6.0']));
  });

  test('has no version in etcd 3.5', () => {
    expect(download(openBench({ version: '3.5' })).versions).toEqual(new Set(['']));
  });

  test('restores keys with their history, leases, users and alarms', () => {
    const source = openBench();
    const { store, leases, auth, alarms } = source.member;
    leases.grant(7n, 60n);
    source.write({ a: '1', b: '1' }, 7n);
    source.write({ b: undefined, c: '1' });
    source.write({ c: '2' });
    store.compact(3n);
    auth.store.addUser('root', Uint8Array.of(1, 2), false);
    auth.store.addUser('certificate', undefined, true);
    auth.store.grantRole('root', 'root');
    auth.store.addRole('ä');
    auth.store.grantPermission('ä', { permType: 2, key: utf8('a'), rangeEnd: utf8('b') });
    auth.store.enable();
    alarms.raise(5n, AlarmType.NOSPACE);

    const target = openBench();
    target.write({ z: 'lost' });
    target.member.auth.store.addUser('lost', undefined, true);
    const token = target.member.auth.tokens.assign('root', 'abc', 9n);
    restoreSnapshot(target.member, parseSnapshot(takeSnapshot(source.member)));

    expect(target.member.store.snapshot()).toEqual(store.snapshot());
    expect(target.member.store.keysOf(7n)).toEqual(['a']);
    expect(target.member.leases.snapshot()).toEqual(leases.snapshot());
    expect(target.member.auth.store.snapshot()).toEqual(auth.store.snapshot());
    expect(target.member.auth.tokens.userOf(token)).toBeUndefined();
    expect(target.member.alarms.list(AlarmType.NONE)).toEqual([{ memberId: 5n, alarm: AlarmType.NOSPACE }]);
    expect(target.member.alarms.isInEffect('NOSPACE')).toBe(true);
    expect(target.member.keyHashes.at(0n)).toEqual(source.member.keyHashes.at(0n));
  });

  test('restores from the bytes of a download', () => {
    const source = openBench();
    source.write({ a: '1' });
    const target = openBench();
    restoreSnapshot(target.member, parseSnapshot(download(source).bytes));
    expect(target.member.store.snapshot()).toEqual(source.member.store.snapshot());
  });

  test('refuses bytes that are not a whole snapshot', () => {
    const bench = openBench();
    bench.write({ a: 'x'.repeat(1_000) });
    const bytes = takeSnapshot(bench.member);
    const changed = bytes.slice();
    changed[600] = (changed[600] as number) ^ 1;
    for (const wrong of [new Uint8Array(1_024), bytes.subarray(0, 100), bytes.subarray(0, -512), changed])
      expect(() => parseSnapshot(wrong)).toThrow(/^snapshot: got /);
  });

  test('ends with the error of the permission check', () => {
    const bench = openBench();
    const { store } = bench.member.auth;
    store.addUser('root', undefined, true);
    store.grantRole('root', 'root');
    store.enable();
    const stream = bench.open(snapshot);
    stream.send({});
    expect(stream.ended).toEqual(serverError('UserEmpty'));
    expect(stream.take()).toEqual([]);
  });
});

describe("MemoryEtcd's MoveLeader", () => {
  test('accepts only the member itself', () => {
    const bench = openBench();
    const learner = 5n;
    bench.member.membership.add({ id: learner, name: '', peerUrls: ['http://a:1'], clientUrls: [], isLearner: true });
    expect(bench.call(moveLeader, { targetId: bench.member.memberId })).toEqual({ header: undefined });
    for (const targetId of [0n, 7n, learner])
      expect(() => bench.call(moveLeader, { targetId })).toThrow(serverError('BadLeaderTransferee'));
  });

  test('fails when the call ends, if the target is a member that never starts', async () => {
    const { member, router } = openBench();
    const targetId = 5n;
    member.membership.add({ id: targetId, name: '', peerUrls: ['http://a:1'], clientUrls: [], isLearner: false });
    const { unary } = unaryRoute(router, moveLeader.path);
    const ending = new AbortController();
    const transfer = Promise.resolve(unary({ targetId }, { metadata: {}, endpoint: '', signal: ending.signal }));
    ending.abort();
    await expect(transfer).rejects.toThrow('etcdserver: request timed out, leader transfer took too long');
  });
});

describe("MemoryEtcd's Downgrade", () => {
  const { VALIDATE, ENABLE, CANCEL } = DowngradeAction;

  test.for([
    ['3.5', '3.5.0', '3.4'],
    ['3.6', '3.6', '3.5'],
    ['3.7', '3.7', '3.6'],
  ] as const)('of etcd %s accepts only the minor version before', ([version, own, target]) => {
    const bench = openBench({ version });
    for (const valid of [target, `${target}.0`, `${target}.9`, `${target}.1-rc.1+x`])
      expect(bench.call(downgrade, { action: VALIDATE, version: valid }).version).toBe(own);
    for (const wrong of ['', '3', '3.x', 'v3.5', '3.5.1.2', '-3.5.0', `${target}.${2n ** 63n}`])
      expect(() => bench.call(downgrade, { action: VALIDATE, version: wrong })).toThrow(
        serverError('WrongDowngradeVersionFormat'),
      );
    for (const invalid of [version, '3.3', '2.5', '4.0'])
      expect(() => bench.call(downgrade, { action: ENABLE, version: invalid })).toThrow(
        serverError('InvalidDowngradeTargetVersion'),
      );
  });

  test('changes the version of the cluster a moment after it starts, and after it ends', () => {
    const bench = openBench();
    const storageVersion = () => bench.call(status, {}).storageVersion;
    expect(bench.call(downgrade, { action: ENABLE, version: '3.5' }).version).toBe('3.6');
    expect(bench.call(status, {}).downgradeInfo).toEqual({ enabled: true, targetVersion: '3.5.0' });
    const again = { action: VALIDATE, version: '3.5' };
    expect(() => bench.call(downgrade, again)).toThrow(serverError('DowngradeInProcess'));
    expect(storageVersion()).toBe('3.6.0');
    bench.clock.advance(MONITOR_INTERVAL_MS);
    expect(storageVersion()).toBe('3.5.0');
    expect(download(bench).versions).toEqual(new Set(['']));
    expect(() => bench.call(downgrade, again)).toThrow(serverError('InvalidDowngradeTargetVersion'));
    expect(bench.call(downgrade, { action: CANCEL }).version).toBe('3.5');
    bench.clock.advance(MONITOR_INTERVAL_MS);
    expect(storageVersion()).toBe('3.6.0');
    expect(bench.call(status, {}).downgradeInfo).toEqual({ enabled: false, targetVersion: '' });
  });

  test('that is not in progress cannot be canceled, which only etcd 3.5 reports as an error', () => {
    expect(openBench({ version: '3.6' }).call(downgrade, { action: CANCEL }).version).toBe('3.6');
    expect(() => openBench({ version: '3.5' }).call(downgrade, { action: CANCEL })).toThrow(
      serverError('NoInflightDowngrade'),
    );
  });

  test('starts and ends in etcd 3.5, but the server never answers', async () => {
    const { member, router, clock } = openBench({ version: '3.5' });
    const { unary } = unaryRoute(router, downgrade.path);
    const call = { metadata: {}, endpoint: '', signal: new AbortController().signal };
    for (const [action, enabled] of [
      [ENABLE, true],
      [CANCEL, false],
    ] as const) {
      const answer = Promise.resolve(unary({ action, version: '3.4' }, call));
      expect(member.downgrade.info.enabled).toBe(enabled);
      clock.advance(7_000);
      await expect(answer).rejects.toEqual(serverError('Timeout'));
    }
  });

  test('with an unknown action is refused', () => {
    const unknown = { action: 5 as DowngradeAction };
    const error = new StatusError('Unknown', 'etcdserver: unknown method');
    expect(() => openBench().call(downgrade, unknown)).toThrow(error);
  });
});
