import { enumName } from '../../extras/transports/json/index.js';
import { type AlarmMember, AlarmType, DowngradeAction, DowngradeRequest } from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import { Sha256 } from '../../host/index.js';
import { RELEASES } from '../etcd/versions.js';
import { andThen, untilTimeLimit } from './consensus.js';
import { Crc32c } from './crc32c.js';
import type { Member } from './member.js';
import { type Router, StatusError, serverError } from './service.js';
import type { MemoryVersion } from './settings.js';
import { takeSnapshot } from './snapshot.js';

/** The ID of the leader in a status if the member knows no leader. */
const NO_LEADER = 0n;
const SNAPSHOT_CHUNK_BYTES = 32_768;

/** Registers the service Maintenance. */
export function registerMaintenance(router: Router, member: Member): void {
  const { auth, store, alarms, downgrade, settings } = member;
  const { maintenance } = methods;
  const header = () => member.header();
  const changeDowngrade = member.proposals.define('downgrade', DowngradeRequest, ({ action, version }) => {
    if (action === DowngradeAction.ENABLE) downgrade.enable(version);
    // etcd 3.6 and newer ignore the error, in `downgradeCancel` of `etcdserver/v3_server.go`.
    else if (action === DowngradeAction.CANCEL) {
      if (!downgrade.cancel() && is35) throw serverError('NoInflightDowngrade');
    } else throw new StatusError('Unknown', 'etcdserver: unknown method');
  });
  const is35 = settings.version === '3.5';
  /** The version of the database format. etcd 3.5 does not store one. */
  const storageVersion = (): string => (is35 ? '' : `${downgrade.clusterVersion}.0`);

  auth.serve(router, maintenance.alarm, (request) =>
    andThen(member.changeAlarms(request), (changed) => ({ header: header(), alarms: changed })),
  );

  auth.serve(router, maintenance.status, () => ({
    header: header(),
    version: RELEASES[settings.version],
    dbSize: BigInt(store.bytes),
    dbSizeInUse: BigInt(store.bytesInUse),
    leader: member.consensus.leaderId,
    raftIndex: member.raftIndex,
    raftAppliedIndex: member.raftIndex,
    raftTerm: member.raftTerm,
    errors: [
      ...(member.consensus.leaderId === NO_LEADER ? [serverError('NoLeader').message] : []),
      ...alarms.list(AlarmType.NONE).map((alarm) => describe(alarm, settings.version)),
    ],
    ...(is35
      ? {}
      : {
          storageVersion: storageVersion(),
          dbSizeQuota: BigInt(settings.quotaBytes),
          downgradeInfo: downgrade.info,
        }),
  }));

  auth.serve(router, maintenance.defragment, () => {
    store.defragment();
    return {};
  });

  // etcd hashes its database. This hash covers the same data in another format, so its value differs from that of a
  // real member, but it also changes exactly when the data change.
  auth.serve(router, maintenance.hash, () => ({
    header: header(),
    hash: new Crc32c().update(takeSnapshot(member)).digest(),
  }));

  auth.serve(router, maintenance.hashKv, (request) => {
    const { hash, compactRevision, revision } = member.keyHashes.at(request.revision);
    return { header: header(), hash, compactRevision, hashRevision: is35 ? 0n : revision };
  });

  router.responses(maintenance.snapshot, function* (request, call) {
    auth.authorize(maintenance.snapshot.path, request, call);
    const snapshot = takeSnapshot(member);
    // etcd reports the stored version, which a database in the format of etcd 3.5 does not have.
    const version = storageVersion() === '3.5.0' ? '' : storageVersion();
    for (let at = 0; at < snapshot.length; at += SNAPSHOT_CHUNK_BYTES) {
      const blob = snapshot.subarray(at, at + SNAPSHOT_CHUNK_BYTES);
      yield { blob, remainingBytes: BigInt(snapshot.length - at - blob.length), version };
    }
    yield { blob: new Sha256().update(snapshot).digest(), version };
  });

  auth.serve(router, maintenance.moveLeader, (request, call) => {
    if (member.consensus.leaderId !== member.memberId) throw serverError('NotLeader');
    if (!member.membership.isVoter(request.targetId)) throw serverError('BadLeaderTransferee');
    if (request.targetId === member.memberId) return {};
    return member.consensus.moveLeader(request.targetId, call).then(() => ({}));
  });

  auth.serve(router, maintenance.downgrade, (request, call) => {
    const { action, version: target } = request;
    const changed =
      action === DowngradeAction.VALIDATE
        ? member.consensus.read(() => void downgrade.validate(target))
        : changeDowngrade(request);
    return andThen(changed, () => {
      // etcd 3.5 never answers these requests, because `Apply` of `etcdserver/apply.go` returns no result for them.
      if (is35 && action !== DowngradeAction.VALIDATE) return untilTimeLimit(settings.clock, call);
      const version = downgrade.clusterVersion;
      return { header: header(), version: is35 ? `${version}.0` : version };
    });
  });
}

/** Returns an alarm as Go prints the message. Go omits a field that has its default value. */
function describe({ memberId, alarm }: AlarmMember, version: MemoryVersion): string {
  const fields = `alarm:${enumName('etcdserverpb.AlarmType', alarm) ?? alarm}`;
  const all = memberId === 0n ? fields : `memberID:${memberId} ${fields}`;
  // The library that prints the messages of etcd 3.5 and 3.6 adds a space.
  return version === '3.7' ? all : `${all} `;
}
