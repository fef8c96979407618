import { AlarmAction, type AlarmMember, AlarmRequest, AlarmType, DowngradeAction } from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import { Sha256 } from '../../host/sha256.js';
import { onAbort } from '../../runtime/signals.js';
import { RELEASES } from '../etcd/versions.js';
import { Crc32c } from './crc32c.js';
import type { Member } from './member.js';
import { propose } from './proposals.js';
import { type Router, type ServerCall, StatusError, serverError } from './service.js';
import type { MemoryVersion } from './settings.js';
import { takeSnapshot } from './snapshot.js';

/** How long etcd waits until it has applied a request: 5 s plus two election timeouts of 1 s. */
const REQUEST_TIMEOUT_MS = 7_000;
const SNAPSHOT_CHUNK_BYTES = 32_768;
const ALARM_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(AlarmType).map(([name, number]) => [number, name]),
);

/** Registers the service Maintenance. */
export function registerMaintenance(router: Router, member: Member): void {
  const { auth, store, alarms, downgrade, settings } = member;
  const { maintenance } = methods;
  const header = () => member.header();
  const is35 = settings.version === '3.5';
  /** The version of the database format. etcd 3.5 does not store one. */
  const storageVersion = (): string => (is35 ? '' : `${downgrade.clusterVersion}.0`);

  router.unary(maintenance.alarm, (request, call) => {
    auth.authorize(maintenance.alarm.path, request, call);
    propose(member, AlarmRequest, request);
    return { header: header(), alarms: changeAlarms(member, request) };
  });

  router.unary(maintenance.status, (request, call) => {
    auth.authorize(maintenance.status.path, request, call);
    return {
      header: header(),
      version: RELEASES[settings.version],
      dbSize: BigInt(store.bytes),
      dbSizeInUse: BigInt(store.bytesInUse),
      leader: member.memberId,
      raftIndex: member.raftIndex,
      raftAppliedIndex: member.raftIndex,
      raftTerm: member.raftTerm,
      errors: alarms.list(AlarmType.NONE).map((alarm) => describe(alarm, settings.version)),
      ...(is35
        ? {}
        : {
            storageVersion: storageVersion(),
            dbSizeQuota: BigInt(settings.quotaBytes),
            downgradeInfo: downgrade.info,
          }),
    };
  });

  router.unary(maintenance.defragment, (request, call) => {
    auth.authorize(maintenance.defragment.path, request, call);
    store.defragment();
    return {};
  });

  // etcd hashes its database. This hash covers the same data in another format, so its value differs from that of a
  // real member, but it also changes exactly when the data change.
  router.unary(maintenance.hash, (request, call) => {
    auth.authorize(maintenance.hash.path, request, call);
    return { header: header(), hash: new Crc32c().update(takeSnapshot(member)).digest() };
  });

  router.unary(maintenance.hashKv, (request, call) => {
    auth.authorize(maintenance.hashKv.path, request, call);
    const { hash, compactRevision, revision } = member.keyHashes.at(request.revision);
    return { header: header(), hash, compactRevision, hashRevision: is35 ? 0n : revision };
  });

  router.streaming(maintenance.snapshot, (responses, call) => ({
    message(request) {
      try {
        auth.authorize(maintenance.snapshot.path, request, call);
      } catch (error) {
        if (!(error instanceof StatusError)) throw error;
        responses.end(error);
        return;
      }
      const snapshot = takeSnapshot(member);
      // etcd reports the stored version, which a database in the format of etcd 3.5 does not have.
      const version = storageVersion() === '3.5.0' ? '' : storageVersion();
      for (let at = 0; at < snapshot.length; at += SNAPSHOT_CHUNK_BYTES) {
        const blob = snapshot.subarray(at, at + SNAPSHOT_CHUNK_BYTES);
        responses.send({ blob, remainingBytes: BigInt(snapshot.length - at - blob.length), version });
      }
      responses.send({ blob: new Sha256().update(snapshot).digest(), version });
      responses.end();
    },
    halfClosed() {},
    canceled() {},
  }));

  router.unary(maintenance.moveLeader, (request, call) => {
    auth.authorize(maintenance.moveLeader.path, request, call);
    if (!member.membership.isVoter(request.targetId)) throw serverError('BadLeaderTransferee');
    return request.targetId === member.memberId ? {} : leaderTransfer(call);
  });

  router.unary(maintenance.downgrade, (request, call) => {
    auth.authorize(maintenance.downgrade.path, request, call);
    changeDowngrade(member, request.action, request.version);
    if (is35 && request.action !== DowngradeAction.VALIDATE) return unanswered(member, call);
    const version = downgrade.clusterVersion;
    return { header: header(), version: is35 ? `${version}.0` : version };
  });
}

/** Carries out an Alarm request. Returns the alarms of its response. */
function changeAlarms({ alarms }: Member, { action, memberId, alarm }: AlarmRequest): AlarmMember[] {
  switch (action) {
    case AlarmAction.GET:
      return alarms.list(alarm);
    case AlarmAction.ACTIVATE:
      return alarms.raise(memberId, alarm);
    case AlarmAction.DEACTIVATE:
      return alarms.clear(memberId, alarm);
    default:
      // The process of a real server ends here.
      return [];
  }
}

/** Returns an alarm as Go prints the message. Go omits a field that has its default value. */
function describe({ memberId, alarm }: AlarmMember, version: MemoryVersion): string {
  const fields = `alarm:${ALARM_NAMES.get(alarm) ?? alarm}`;
  const all = memberId === 0n ? fields : `memberID:${memberId} ${fields}`;
  // The library that prints the messages of etcd 3.5 and 3.6 adds a space.
  return version === '3.7' ? all : `${all} `;
}

/**
 * Rejects when the call ends. The member to which the leadership should move never starts, so the transfer never ends.
 */
function leaderTransfer({ signal }: ServerCall): Promise<never> {
  return new Promise((_, reject) => {
    const fail = (): void =>
      reject(new StatusError('Unknown', 'etcdserver: request timed out, leader transfer took too long'));
    onAbort(signal, fail);
    if (signal.aborted) fail();
  });
}

/**
 * Ends a call after the time limit of the server. etcd 3.5 starts and cancels downgrades, but never answers these
 * requests, because `Apply` of `etcdserver/apply.go` returns no result for them.
 */
function unanswered({ settings: { clock } }: Member, { signal }: ServerCall): Promise<never> {
  return new Promise((_, reject) => {
    const stop = clock.after(REQUEST_TIMEOUT_MS, () => reject(serverError('Timeout')));
    onAbort(signal, stop);
  });
}

/** Carries out a Downgrade request. @throws StatusError */
function changeDowngrade({ downgrade, settings }: Member, action: DowngradeAction, version: string): void {
  switch (action) {
    case DowngradeAction.VALIDATE:
      downgrade.validate(version);
      break;
    case DowngradeAction.ENABLE:
      downgrade.enable(version);
      break;
    case DowngradeAction.CANCEL:
      // etcd 3.6 and newer ignore the error, in `downgradeCancel` of `etcdserver/v3_server.go`.
      if (!downgrade.cancel() && settings.version === '3.5') throw serverError('NoInflightDowngrade');
      break;
    default:
      throw new StatusError('Unknown', 'etcdserver: unknown method');
  }
}
