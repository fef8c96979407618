import type { HashKVResponse, Member, MemberAddResponse, StatusResponse } from '../../../src/internal.js';
import { goSize } from './etcdctl/go-format.js';
import { hexId } from './output-base.js';

// The rows of the tables that the normal mode and the etcdctl mode have in common. They are those of etcdctl 3.6.

export const MEMBER_HEADINGS = ['ID', 'STATUS', 'NAME', 'PEER ADDRS', 'CLIENT ADDRS', 'IS LEARNER'];

export function memberRow({ id, name, peerUrls, clientUrls, isLearner }: Member): readonly string[] {
  // A member reports its name when it starts for the first time, so a member without a name has not started.
  const status = name === '' ? 'unstarted' : 'started';
  return [hexId(id), status, name, peerUrls.join(','), clientUrls.join(','), String(isLearner)];
}

/** Returns the environment variables with which to start a new member, one in each line. */
export function memberSettings(
  name: string,
  { member, members }: MemberAddResponse,
  peerUrls: readonly string[] = member?.peerUrls ?? [],
): readonly string[] {
  const peers = members.flatMap((each) =>
    each.peerUrls.map((url) => `${each.id === member?.id ? name : each.name}=${url}`),
  );
  const settings = {
    ETCD_NAME: name,
    ETCD_INITIAL_CLUSTER: peers.join(','),
    ETCD_INITIAL_ADVERTISE_PEER_URLS: peerUrls.join(','),
    ETCD_INITIAL_CLUSTER_STATE: 'existing',
  };
  return Object.entries(settings).map(([setting, value]) => `${setting}=${JSON.stringify(value)}`);
}

export const HEALTH_HEADINGS = ['ENDPOINT', 'HEALTH', 'TOOK', 'ERROR'];

export const HASH_HEADINGS = ['ENDPOINT', 'HASH', 'HASH REVISION'];

export function hashRow(endpoint: string, { hash, hashRevision }: HashKVResponse): readonly string[] {
  return [endpoint, String(hash), String(hashRevision)];
}

export const STATUS_HEADINGS = [
  'ENDPOINT',
  'ID',
  'VERSION',
  'STORAGE VERSION',
  'DB SIZE',
  'IN USE',
  'PERCENTAGE NOT IN USE',
  'QUOTA',
  'IS LEADER',
  'IS LEARNER',
  'RAFT TERM',
  'RAFT INDEX',
  'RAFT APPLIED INDEX',
  'ERRORS',
  'DOWNGRADE TARGET VERSION',
  'DOWNGRADE ENABLED',
];

export function statusRow(endpoint: string, status: StatusResponse): readonly string[] {
  const id = status.header?.memberId ?? 0n;
  const notInUse = status.dbSize === 0n ? 0n : 100n - (status.dbSizeInUse * 100n) / status.dbSize;
  return [
    endpoint,
    hexId(id),
    status.version,
    status.storageVersion,
    goSize(status.dbSize),
    goSize(status.dbSizeInUse),
    `${notInUse}%`,
    goSize(status.dbSizeQuota),
    String(status.leader === id),
    String(status.isLearner),
    String(status.raftTerm),
    String(status.raftIndex),
    String(status.raftAppliedIndex),
    status.errors.join(', '),
    status.downgradeInfo?.targetVersion ?? '',
    String(status.downgradeInfo?.enabled ?? false),
  ];
}
