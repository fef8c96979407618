import {
  AlarmType,
  type KeyValueMessage,
  PermissionType,
  type pb,
  type ResponseHeader,
} from '../../../../src/internal.js';
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

const get: Fields<pb.RangeResponse> = (response, isHex) => [
  ...headerFields(response, isHex),
  ...response.kvs.flatMap((kv) => keyFields('', kv, isHex)),
  `"More" : ${response.more}`,
  `"Count" : ${response.count}`,
];

const put: Fields<pb.PutResponse> = (response, isHex) => [
  ...headerFields(response, isHex),
  ...(response.prevKv === undefined ? [] : keyFields('Prev', response.prevKv, isHex)),
];

const del: Fields<pb.DeleteRangeResponse> = (response, isHex) => [
  ...headerFields(response, isHex),
  `"Deleted" : ${response.deleted}`,
  ...response.prevKvs.flatMap((kv) => keyFields('Prev', kv, isHex)),
];

const txn: Fields<pb.TxnResponse> = (response, isHex) => [
  ...headerFields(response, isHex),
  `"Succeeded" : ${response.succeeded}`,
  ...response.responses.flatMap(({ response: each }) => {
    if (each?.case === 'responseRange') return get(each.value, isHex);
    if (each?.case === 'responsePut') return put(each.value, isHex);
    return each?.case === 'responseDeleteRange' ? del(each.value, isHex) : [];
  }),
];

export const watchFields: Fields<WatchedEvents> = (response, isHex) => [
  ...headerFields(response, isHex),
  ...response.events.flatMap(({ type, kv, prevKv }) => [
    `"Type" : ${type === 0 ? 'PUT' : 'DELETE'}`,
    ...(prevKv === undefined ? [] : keyFields('Prev', prevKv, isHex)),
    ...keyFields('', kv, isHex),
  ]),
];

const lease: Fields<pb.LeaseGrantResponse | pb.LeaseKeepAliveResponse> = (response, isHex) => [
  ...headerFields(response, isHex),
  `"ID" : ${leaseField(response.id, isHex)}`,
  `"TTL" : ${response.ttl}`,
];

const timeToLive: Fields<pb.LeaseTimeToLiveResponse> = (response, isHex) => [
  ...headerFields(response, isHex),
  `"ID" : ${leaseField(response.id, isHex)}`,
  `"TTL" : ${response.ttl}`,
  `"GrantedTTL" : ${response.grantedTtl}`,
  ...response.keys.map((key) => `"Key" : ${goQuoted(key)}`),
];

const leases: Fields<pb.LeaseLeasesResponse> = (response, isHex) => [
  ...headerFields(response, isHex),
  ...response.leases.map(({ id }) => `"ID" : ${leaseField(id, isHex)}`),
];

const members: Fields<pb.MemberListResponse> = (response, isHex) => [
  ...headerFields(response, isHex),
  ...response.members.flatMap(({ id, name, peerUrls, clientUrls, isLearner }) => [
    `"ID" : ${idField(id, isHex)}`,
    `"Name" : ${goQuoted(name)}`,
    ...peerUrls.map((url) => `"PeerURL" : ${goQuoted(url)}`),
    ...clientUrls.map((url) => `"ClientURL" : ${goQuoted(url)}`),
    `"IsLearner" : ${isLearner}`,
    '',
  ]),
];

const alarms: Fields<pb.AlarmResponse> = (response, isHex) => [
  ...headerFields(response, isHex),
  ...response.alarms.flatMap(({ memberId, alarm }) => [
    `"MemberID" : ${idField(memberId, isHex)}`,
    `"AlarmType" : ${nameOf(AlarmType, alarm)}`,
    '',
  ]),
];

const role: Fields<pb.AuthRoleGetResponse> = (response, isHex) => [
  ...headerFields(response, isHex),
  ...response.perm.flatMap(({ permType, key, rangeEnd }) => [
    // etcdctl prints two spaces here.
    `"PermType" :  ${nameOf(PermissionType, permType)}`,
    `"Key" : ${goQuoted(key)}`,
    `"RangeEnd" : ${goQuoted(rangeEnd)}`,
  ]),
];

const roles: Fields<pb.AuthRoleListResponse> = (response, isHex) => [
  ...headerFields(response, isHex),
  `"Roles" :${response.roles.map((name) => ` ${goQuoted(name)}`).join('')}`,
];

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

function nameOf(names: Readonly<Record<string, number>>, value: number): string {
  return Object.entries(names).find(([, number]) => number === value)?.[0] ?? String(value);
}

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
  'etcdserverpb.LeaseRevokeResponse': headerFields,
  'etcdserverpb.LeaseKeepAliveResponse': lease,
  'etcdserverpb.LeaseTimeToLiveResponse': timeToLive,
  'etcdserverpb.LeaseLeasesResponse': leases,
  'etcdserverpb.MemberListResponse': members,
  'etcdserverpb.AlarmResponse': alarms,
  'etcdserverpb.AuthRoleAddResponse': headerFields,
  'etcdserverpb.AuthRoleGetResponse': role,
  'etcdserverpb.AuthRoleDeleteResponse': headerFields,
  'etcdserverpb.AuthRoleListResponse': roles,
  'etcdserverpb.AuthRoleGrantPermissionResponse': headerFields,
  'etcdserverpb.AuthRoleRevokePermissionResponse': headerFields,
  'etcdserverpb.AuthUserAddResponse': headerFields,
  'etcdserverpb.AuthUserChangePasswordResponse': headerFields,
  'etcdserverpb.AuthUserGrantRoleResponse': headerFields,
  'etcdserverpb.AuthUserRevokeRoleResponse': headerFields,
  'etcdserverpb.AuthUserDeleteResponse': headerFields,
};
