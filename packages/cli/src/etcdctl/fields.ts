import { enumName, type KeyValueMessage, type pb, type ResponseHeader } from '../../../../src/internal.js';
import { hexId, leaseHex } from '../output-base.js';
import { goQuoted } from './go-format.js';
import type { WatchedEvents } from './go-json.js';

/** Returns the lines of a response. With `isHex`, IDs are hexadecimal. */
type Fields<T> = (response: T, isHex: boolean) => readonly string[];

/** The fields of a response that has only a header. */
function headerFields({ header }: { readonly header: ResponseHeader | undefined }, isHex: boolean): string[] {
  const { clusterId = 0n, memberId = 0n, revision = 0n, raftTerm = 0n } = header ?? {};
  return [
    `"ClusterID" : ${idField(clusterId, isHex)}`,
    `"MemberID" : ${idField(memberId, isHex)}`,
    // etcdctl leaves out the revision if a response has none, such as the list of members.
    ...(revision > 0n ? [`"Revision" : ${revision}`] : []),
    `"RaftTerm" : ${raftTerm}`,
  ];
}

/** Returns the lines of a response: those of its header, and `rest`. */
function afterHeader<T extends Parameters<typeof headerFields>[0]>(rest: Fields<T>): Fields<T> {
  return (response, isHex) => [...headerFields(response, isHex), ...rest(response, isHex)];
}

function idField(id: bigint, isHex: boolean): string {
  return isHex ? hexId(id) : String(id);
}

function leaseField(id: bigint, isHex: boolean): string {
  return isHex ? leaseHex(id) : String(id);
}

function keyFields(prefix: string, kv: KeyValueMessage, isHex: boolean): string[] {
  return [
    `"${prefix}Key" : ${goQuoted(kv.key)}`,
    `"${prefix}CreateRevision" : ${kv.createRevision}`,
    `"${prefix}ModRevision" : ${kv.modRevision}`,
    `"${prefix}Version" : ${kv.version}`,
    `"${prefix}Value" : ${goQuoted(kv.value)}`,
    `"${prefix}Lease" : ${leaseField(kv.lease, isHex)}`,
  ];
}

const get = afterHeader<pb.RangeResponse>((response, isHex) => [
  ...response.kvs.flatMap((kv) => keyFields('', kv, isHex)),
  `"More" : ${response.more}`,
  `"Count" : ${response.count}`,
]);

const put = afterHeader<pb.PutResponse>((response, isHex) => [
  ...(response.prevKv === undefined ? [] : keyFields('Prev', response.prevKv, isHex)),
]);

const del = afterHeader<pb.DeleteRangeResponse>((response, isHex) => [
  `"Deleted" : ${response.deleted}`,
  ...response.prevKvs.flatMap((kv) => keyFields('Prev', kv, isHex)),
]);

const txn = afterHeader<pb.TxnResponse>((response, isHex) => [
  `"Succeeded" : ${response.succeeded}`,
  ...response.responses.flatMap(({ response: each }) => {
    if (each?.case === 'responseRange') return get(each.value, isHex);
    if (each?.case === 'responsePut') return put(each.value, isHex);
    return each?.case === 'responseDeleteRange' ? del(each.value, isHex) : [];
  }),
]);

export const watchFields = afterHeader<WatchedEvents>((response, isHex) => [
  ...response.events.flatMap(({ type, kv, prevKv }) => [
    `"Type" : ${type === 0 ? 'PUT' : 'DELETE'}`,
    ...(prevKv === undefined ? [] : keyFields('Prev', prevKv, isHex)),
    ...keyFields('', kv, isHex),
  ]),
]);

const lease = afterHeader<pb.LeaseGrantResponse | pb.LeaseKeepAliveResponse>((response, isHex) => [
  `"ID" : ${leaseField(response.id, isHex)}`,
  `"TTL" : ${response.ttl}`,
]);

const timeToLive = afterHeader<pb.LeaseTimeToLiveResponse>((response, isHex) => [
  `"ID" : ${leaseField(response.id, isHex)}`,
  `"TTL" : ${response.ttl}`,
  `"GrantedTTL" : ${response.grantedTtl}`,
  ...response.keys.map((key) => `"Key" : ${goQuoted(key)}`),
]);

const leases = afterHeader<pb.LeaseLeasesResponse>((response, isHex) => [
  ...response.leases.map(({ id }) => `"ID" : ${leaseField(id, isHex)}`),
]);

const members = afterHeader<pb.MemberListResponse>((response, isHex) => [
  ...response.members.flatMap(({ id, name, peerUrls, clientUrls, isLearner }) => [
    `"ID" : ${idField(id, isHex)}`,
    `"Name" : ${goQuoted(name)}`,
    ...peerUrls.map((url) => `"PeerURL" : ${goQuoted(url)}`),
    ...clientUrls.map((url) => `"ClientURL" : ${goQuoted(url)}`),
    `"IsLearner" : ${isLearner}`,
    '',
  ]),
]);

const alarms = afterHeader<pb.AlarmResponse>((response, isHex) => [
  ...response.alarms.flatMap(({ memberId, alarm }) => [
    `"MemberID" : ${idField(memberId, isHex)}`,
    `"AlarmType" : ${enumName('etcdserverpb.AlarmType', alarm) ?? alarm}`,
    '',
  ]),
]);

const role = afterHeader<pb.AuthRoleGetResponse>((response) => [
  ...response.perm.flatMap(({ permType, key, rangeEnd }) => [
    // etcdctl prints two spaces here.
    `"PermType" :  ${enumName('authpb.Permission.Type', permType) ?? permType}`,
    `"Key" : ${goQuoted(key)}`,
    `"RangeEnd" : ${goQuoted(rangeEnd)}`,
  ]),
]);

const roles = afterHeader<pb.AuthRoleListResponse>((response) => [
  `"Roles" :${response.roles.map((name) => ` ${goQuoted(name)}`).join('')}`,
]);

export const healthFields = (endpoint: string, health: boolean, took: string, error: string): readonly string[] => [
  `"Endpoint" : ${goQuoted(endpoint)}`,
  `"Health" : ${health}`,
  `"Took" : ${took}`,
  `"Error" : ${error}`,
  '',
];

export const statusFields = (endpoint: string, status: pb.StatusResponse, isHex: boolean): readonly string[] => [
  ...headerFields(status, isHex),
  `"Version" : ${goQuoted(status.version)}`,
  `"StorageVersion" : ${goQuoted(status.storageVersion)}`,
  `"DBSize" : ${status.dbSize}`,
  `"DBSizeInUse" : ${status.dbSizeInUse}`,
  `"DBSizeQuota" : ${status.dbSizeQuota}`,
  `"Leader" : ${status.leader}`,
  `"IsLearner" : ${status.isLearner}`,
  `"RaftIndex" : ${status.raftIndex}`,
  `"RaftTerm" : ${status.raftTerm}`,
  `"RaftAppliedIndex" : ${status.raftAppliedIndex}`,
  `"Errors" : [${status.errors.join(' ')}]`,
  `"Endpoint" : ${goQuoted(endpoint)}`,
  `"DowngradeTargetVersion" : ${goQuoted(status.downgradeInfo?.targetVersion ?? '')}`,
  `"DowngradeEnabled" : ${status.downgradeInfo?.enabled ?? false}`,
  '',
];

export const hashFields = (endpoint: string, hash: pb.HashKVResponse, isHex: boolean): readonly string[] => [
  ...headerFields(hash, isHex),
  `"Endpoint" : ${goQuoted(endpoint)}`,
  `"Hash" : ${hash.hash}`,
  `"HashRevision" : ${hash.hashRevision}`,
  '',
];

/** The responses of which etcdctl prints only the header. */
const HEADER_ONLY = [
  ...['LeaseRevoke', 'AuthRoleAdd', 'AuthRoleDelete', 'AuthRoleGrantPermission', 'AuthRoleRevokePermission'],
  ...['AuthUserAdd', 'AuthUserChangePassword', 'AuthUserGrantRole', 'AuthUserRevokeRole', 'AuthUserDelete'],
];

/**
 * The formats of responses for `--write-out fields`, by message. etcdctl does not print the messages that are missing
 * here in this format.
 */
export const FIELDS: Readonly<Record<string, Fields<never>>> = {
  'etcdserverpb.RangeResponse': get,
  'etcdserverpb.PutResponse': put,
  'etcdserverpb.DeleteRangeResponse': del,
  'etcdserverpb.TxnResponse': txn,
  'etcdserverpb.LeaseGrantResponse': lease,
  'etcdserverpb.LeaseKeepAliveResponse': lease,
  'etcdserverpb.LeaseTimeToLiveResponse': timeToLive,
  'etcdserverpb.LeaseLeasesResponse': leases,
  'etcdserverpb.MemberListResponse': members,
  'etcdserverpb.AlarmResponse': alarms,
  'etcdserverpb.AuthRoleGetResponse': role,
  'etcdserverpb.AuthRoleListResponse': roles,
  ...Object.fromEntries(HEADER_ONLY.map((name) => [`etcdserverpb.${name}Response`, headerFields])),
};
