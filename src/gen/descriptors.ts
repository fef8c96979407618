// Written by scripts/generate.ts from proto/. Do not edit.

import type { FieldDescriptor } from '../wire/index.js';

/** The fields of each message, by its full name. */
export const messageFields: Readonly<Record<string, readonly FieldDescriptor[]>> = {
  'mvccpb.KeyValue': [
    { number: 1, name: 'key', property: 'key', type: { scalar: 'bytes' } },
    { number: 2, name: 'create_revision', property: 'createRevision', type: { scalar: 'int64' } },
    { number: 3, name: 'mod_revision', property: 'modRevision', type: { scalar: 'int64' } },
    { number: 4, name: 'version', property: 'version', type: { scalar: 'int64' } },
    { number: 5, name: 'value', property: 'value', type: { scalar: 'bytes' } },
    { number: 6, name: 'lease', property: 'lease', type: { scalar: 'int64' } },
  ],
  'mvccpb.Event': [
    { number: 1, name: 'type', property: 'type', type: { enum: 'mvccpb.Event.EventType' } },
    { number: 2, name: 'kv', property: 'kv', type: { message: 'mvccpb.KeyValue' } },
    { number: 3, name: 'prev_kv', property: 'prevKv', type: { message: 'mvccpb.KeyValue' } },
  ],
  'authpb.UserAddOptions': [{ number: 1, name: 'no_password', property: 'noPassword', type: { scalar: 'bool' } }],
  'authpb.User': [
    { number: 1, name: 'name', property: 'name', type: { scalar: 'bytes' } },
    { number: 2, name: 'password', property: 'password', type: { scalar: 'bytes' } },
    { number: 3, name: 'roles', property: 'roles', type: { scalar: 'string' }, repeated: true },
    { number: 4, name: 'options', property: 'options', type: { message: 'authpb.UserAddOptions' } },
  ],
  'authpb.Permission': [
    { number: 1, name: 'permType', property: 'permType', type: { enum: 'authpb.Permission.Type' } },
    { number: 2, name: 'key', property: 'key', type: { scalar: 'bytes' } },
    { number: 3, name: 'range_end', property: 'rangeEnd', type: { scalar: 'bytes' } },
  ],
  'authpb.Role': [
    { number: 1, name: 'name', property: 'name', type: { scalar: 'bytes' } },
    {
      number: 2,
      name: 'keyPermission',
      property: 'keyPermission',
      type: { message: 'authpb.Permission' },
      repeated: true,
    },
  ],
  'etcdserverpb.ResponseHeader': [
    { number: 1, name: 'cluster_id', property: 'clusterId', type: { scalar: 'uint64' } },
    { number: 2, name: 'member_id', property: 'memberId', type: { scalar: 'uint64' } },
    { number: 3, name: 'revision', property: 'revision', type: { scalar: 'int64' } },
    { number: 4, name: 'raft_term', property: 'raftTerm', type: { scalar: 'uint64' } },
  ],
  'etcdserverpb.RangeRequest': [
    { number: 1, name: 'key', property: 'key', type: { scalar: 'bytes' } },
    { number: 2, name: 'range_end', property: 'rangeEnd', type: { scalar: 'bytes' } },
    { number: 3, name: 'limit', property: 'limit', type: { scalar: 'int64' } },
    { number: 4, name: 'revision', property: 'revision', type: { scalar: 'int64' } },
    { number: 5, name: 'sort_order', property: 'sortOrder', type: { enum: 'etcdserverpb.RangeRequest.SortOrder' } },
    { number: 6, name: 'sort_target', property: 'sortTarget', type: { enum: 'etcdserverpb.RangeRequest.SortTarget' } },
    { number: 7, name: 'serializable', property: 'serializable', type: { scalar: 'bool' } },
    { number: 8, name: 'keys_only', property: 'keysOnly', type: { scalar: 'bool' } },
    { number: 9, name: 'count_only', property: 'countOnly', type: { scalar: 'bool' } },
    { number: 10, name: 'min_mod_revision', property: 'minModRevision', type: { scalar: 'int64' } },
    { number: 11, name: 'max_mod_revision', property: 'maxModRevision', type: { scalar: 'int64' } },
    { number: 12, name: 'min_create_revision', property: 'minCreateRevision', type: { scalar: 'int64' } },
    { number: 13, name: 'max_create_revision', property: 'maxCreateRevision', type: { scalar: 'int64' } },
  ],
  'etcdserverpb.RangeResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'kvs', property: 'kvs', type: { message: 'mvccpb.KeyValue' }, repeated: true },
    { number: 3, name: 'more', property: 'more', type: { scalar: 'bool' } },
    { number: 4, name: 'count', property: 'count', type: { scalar: 'int64' } },
  ],
  'etcdserverpb.PutRequest': [
    { number: 1, name: 'key', property: 'key', type: { scalar: 'bytes' } },
    { number: 2, name: 'value', property: 'value', type: { scalar: 'bytes' } },
    { number: 3, name: 'lease', property: 'lease', type: { scalar: 'int64' } },
    { number: 4, name: 'prev_kv', property: 'prevKv', type: { scalar: 'bool' } },
    { number: 5, name: 'ignore_value', property: 'ignoreValue', type: { scalar: 'bool' } },
    { number: 6, name: 'ignore_lease', property: 'ignoreLease', type: { scalar: 'bool' } },
  ],
  'etcdserverpb.PutResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'prev_kv', property: 'prevKv', type: { message: 'mvccpb.KeyValue' } },
  ],
  'etcdserverpb.DeleteRangeRequest': [
    { number: 1, name: 'key', property: 'key', type: { scalar: 'bytes' } },
    { number: 2, name: 'range_end', property: 'rangeEnd', type: { scalar: 'bytes' } },
    { number: 3, name: 'prev_kv', property: 'prevKv', type: { scalar: 'bool' } },
  ],
  'etcdserverpb.DeleteRangeResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'deleted', property: 'deleted', type: { scalar: 'int64' } },
    { number: 3, name: 'prev_kvs', property: 'prevKvs', type: { message: 'mvccpb.KeyValue' }, repeated: true },
  ],
  'etcdserverpb.RequestOp': [
    {
      number: 1,
      name: 'request_range',
      property: 'requestRange',
      type: { message: 'etcdserverpb.RangeRequest' },
      oneof: 'request',
    },
    {
      number: 2,
      name: 'request_put',
      property: 'requestPut',
      type: { message: 'etcdserverpb.PutRequest' },
      oneof: 'request',
    },
    {
      number: 3,
      name: 'request_delete_range',
      property: 'requestDeleteRange',
      type: { message: 'etcdserverpb.DeleteRangeRequest' },
      oneof: 'request',
    },
    {
      number: 4,
      name: 'request_txn',
      property: 'requestTxn',
      type: { message: 'etcdserverpb.TxnRequest' },
      oneof: 'request',
    },
  ],
  'etcdserverpb.ResponseOp': [
    {
      number: 1,
      name: 'response_range',
      property: 'responseRange',
      type: { message: 'etcdserverpb.RangeResponse' },
      oneof: 'response',
    },
    {
      number: 2,
      name: 'response_put',
      property: 'responsePut',
      type: { message: 'etcdserverpb.PutResponse' },
      oneof: 'response',
    },
    {
      number: 3,
      name: 'response_delete_range',
      property: 'responseDeleteRange',
      type: { message: 'etcdserverpb.DeleteRangeResponse' },
      oneof: 'response',
    },
    {
      number: 4,
      name: 'response_txn',
      property: 'responseTxn',
      type: { message: 'etcdserverpb.TxnResponse' },
      oneof: 'response',
    },
  ],
  'etcdserverpb.Compare': [
    { number: 1, name: 'result', property: 'result', type: { enum: 'etcdserverpb.Compare.CompareResult' } },
    { number: 2, name: 'target', property: 'target', type: { enum: 'etcdserverpb.Compare.CompareTarget' } },
    { number: 3, name: 'key', property: 'key', type: { scalar: 'bytes' } },
    { number: 4, name: 'version', property: 'version', type: { scalar: 'int64' }, oneof: 'targetUnion' },
    { number: 5, name: 'create_revision', property: 'createRevision', type: { scalar: 'int64' }, oneof: 'targetUnion' },
    { number: 6, name: 'mod_revision', property: 'modRevision', type: { scalar: 'int64' }, oneof: 'targetUnion' },
    { number: 7, name: 'value', property: 'value', type: { scalar: 'bytes' }, oneof: 'targetUnion' },
    { number: 8, name: 'lease', property: 'lease', type: { scalar: 'int64' }, oneof: 'targetUnion' },
    { number: 64, name: 'range_end', property: 'rangeEnd', type: { scalar: 'bytes' } },
  ],
  'etcdserverpb.TxnRequest': [
    { number: 1, name: 'compare', property: 'compare', type: { message: 'etcdserverpb.Compare' }, repeated: true },
    { number: 2, name: 'success', property: 'success', type: { message: 'etcdserverpb.RequestOp' }, repeated: true },
    { number: 3, name: 'failure', property: 'failure', type: { message: 'etcdserverpb.RequestOp' }, repeated: true },
  ],
  'etcdserverpb.TxnResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'succeeded', property: 'succeeded', type: { scalar: 'bool' } },
    {
      number: 3,
      name: 'responses',
      property: 'responses',
      type: { message: 'etcdserverpb.ResponseOp' },
      repeated: true,
    },
  ],
  'etcdserverpb.CompactionRequest': [
    { number: 1, name: 'revision', property: 'revision', type: { scalar: 'int64' } },
    { number: 2, name: 'physical', property: 'physical', type: { scalar: 'bool' } },
  ],
  'etcdserverpb.CompactionResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.HashRequest': [],
  'etcdserverpb.HashKVRequest': [{ number: 1, name: 'revision', property: 'revision', type: { scalar: 'int64' } }],
  'etcdserverpb.HashKVResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'hash', property: 'hash', type: { scalar: 'uint32' } },
    { number: 3, name: 'compact_revision', property: 'compactRevision', type: { scalar: 'int64' } },
    { number: 4, name: 'hash_revision', property: 'hashRevision', type: { scalar: 'int64' } },
  ],
  'etcdserverpb.HashResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'hash', property: 'hash', type: { scalar: 'uint32' } },
  ],
  'etcdserverpb.SnapshotRequest': [],
  'etcdserverpb.SnapshotResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'remaining_bytes', property: 'remainingBytes', type: { scalar: 'uint64' } },
    { number: 3, name: 'blob', property: 'blob', type: { scalar: 'bytes' } },
    { number: 4, name: 'version', property: 'version', type: { scalar: 'string' } },
  ],
  'etcdserverpb.WatchRequest': [
    {
      number: 1,
      name: 'create_request',
      property: 'createRequest',
      type: { message: 'etcdserverpb.WatchCreateRequest' },
      oneof: 'requestUnion',
    },
    {
      number: 2,
      name: 'cancel_request',
      property: 'cancelRequest',
      type: { message: 'etcdserverpb.WatchCancelRequest' },
      oneof: 'requestUnion',
    },
    {
      number: 3,
      name: 'progress_request',
      property: 'progressRequest',
      type: { message: 'etcdserverpb.WatchProgressRequest' },
      oneof: 'requestUnion',
    },
  ],
  'etcdserverpb.WatchCreateRequest': [
    { number: 1, name: 'key', property: 'key', type: { scalar: 'bytes' } },
    { number: 2, name: 'range_end', property: 'rangeEnd', type: { scalar: 'bytes' } },
    { number: 3, name: 'start_revision', property: 'startRevision', type: { scalar: 'int64' } },
    { number: 4, name: 'progress_notify', property: 'progressNotify', type: { scalar: 'bool' } },
    {
      number: 5,
      name: 'filters',
      property: 'filters',
      type: { enum: 'etcdserverpb.WatchCreateRequest.FilterType' },
      repeated: true,
    },
    { number: 6, name: 'prev_kv', property: 'prevKv', type: { scalar: 'bool' } },
    { number: 7, name: 'watch_id', property: 'watchId', type: { scalar: 'int64' } },
    { number: 8, name: 'fragment', property: 'fragment', type: { scalar: 'bool' } },
  ],
  'etcdserverpb.WatchCancelRequest': [{ number: 1, name: 'watch_id', property: 'watchId', type: { scalar: 'int64' } }],
  'etcdserverpb.WatchProgressRequest': [],
  'etcdserverpb.WatchResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'watch_id', property: 'watchId', type: { scalar: 'int64' } },
    { number: 3, name: 'created', property: 'created', type: { scalar: 'bool' } },
    { number: 4, name: 'canceled', property: 'canceled', type: { scalar: 'bool' } },
    { number: 5, name: 'compact_revision', property: 'compactRevision', type: { scalar: 'int64' } },
    { number: 6, name: 'cancel_reason', property: 'cancelReason', type: { scalar: 'string' } },
    { number: 7, name: 'fragment', property: 'fragment', type: { scalar: 'bool' } },
    { number: 11, name: 'events', property: 'events', type: { message: 'mvccpb.Event' }, repeated: true },
  ],
  'etcdserverpb.LeaseGrantRequest': [
    { number: 1, name: 'TTL', property: 'ttl', type: { scalar: 'int64' } },
    { number: 2, name: 'ID', property: 'id', type: { scalar: 'int64' } },
  ],
  'etcdserverpb.LeaseGrantResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'ID', property: 'id', type: { scalar: 'int64' } },
    { number: 3, name: 'TTL', property: 'ttl', type: { scalar: 'int64' } },
    { number: 4, name: 'error', property: 'error', type: { scalar: 'string' } },
  ],
  'etcdserverpb.LeaseRevokeRequest': [{ number: 1, name: 'ID', property: 'id', type: { scalar: 'int64' } }],
  'etcdserverpb.LeaseRevokeResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.LeaseCheckpoint': [
    { number: 1, name: 'ID', property: 'id', type: { scalar: 'int64' } },
    { number: 2, name: 'remaining_TTL', property: 'remainingTtl', type: { scalar: 'int64' } },
  ],
  'etcdserverpb.LeaseCheckpointRequest': [
    {
      number: 1,
      name: 'checkpoints',
      property: 'checkpoints',
      type: { message: 'etcdserverpb.LeaseCheckpoint' },
      repeated: true,
    },
  ],
  'etcdserverpb.LeaseCheckpointResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.LeaseKeepAliveRequest': [{ number: 1, name: 'ID', property: 'id', type: { scalar: 'int64' } }],
  'etcdserverpb.LeaseKeepAliveResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'ID', property: 'id', type: { scalar: 'int64' } },
    { number: 3, name: 'TTL', property: 'ttl', type: { scalar: 'int64' } },
  ],
  'etcdserverpb.LeaseTimeToLiveRequest': [
    { number: 1, name: 'ID', property: 'id', type: { scalar: 'int64' } },
    { number: 2, name: 'keys', property: 'keys', type: { scalar: 'bool' } },
  ],
  'etcdserverpb.LeaseTimeToLiveResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'ID', property: 'id', type: { scalar: 'int64' } },
    { number: 3, name: 'TTL', property: 'ttl', type: { scalar: 'int64' } },
    { number: 4, name: 'grantedTTL', property: 'grantedTtl', type: { scalar: 'int64' } },
    { number: 5, name: 'keys', property: 'keys', type: { scalar: 'bytes' }, repeated: true },
  ],
  'etcdserverpb.LeaseLeasesRequest': [],
  'etcdserverpb.LeaseStatus': [{ number: 1, name: 'ID', property: 'id', type: { scalar: 'int64' } }],
  'etcdserverpb.LeaseLeasesResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'leases', property: 'leases', type: { message: 'etcdserverpb.LeaseStatus' }, repeated: true },
  ],
  'etcdserverpb.Member': [
    { number: 1, name: 'ID', property: 'id', type: { scalar: 'uint64' } },
    { number: 2, name: 'name', property: 'name', type: { scalar: 'string' } },
    { number: 3, name: 'peerURLs', property: 'peerUrls', type: { scalar: 'string' }, repeated: true },
    { number: 4, name: 'clientURLs', property: 'clientUrls', type: { scalar: 'string' }, repeated: true },
    { number: 5, name: 'isLearner', property: 'isLearner', type: { scalar: 'bool' } },
  ],
  'etcdserverpb.MemberAddRequest': [
    { number: 1, name: 'peerURLs', property: 'peerUrls', type: { scalar: 'string' }, repeated: true },
    { number: 2, name: 'isLearner', property: 'isLearner', type: { scalar: 'bool' } },
  ],
  'etcdserverpb.MemberAddResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'member', property: 'member', type: { message: 'etcdserverpb.Member' } },
    { number: 3, name: 'members', property: 'members', type: { message: 'etcdserverpb.Member' }, repeated: true },
  ],
  'etcdserverpb.MemberRemoveRequest': [{ number: 1, name: 'ID', property: 'id', type: { scalar: 'uint64' } }],
  'etcdserverpb.MemberRemoveResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'members', property: 'members', type: { message: 'etcdserverpb.Member' }, repeated: true },
  ],
  'etcdserverpb.MemberUpdateRequest': [
    { number: 1, name: 'ID', property: 'id', type: { scalar: 'uint64' } },
    { number: 2, name: 'peerURLs', property: 'peerUrls', type: { scalar: 'string' }, repeated: true },
  ],
  'etcdserverpb.MemberUpdateResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'members', property: 'members', type: { message: 'etcdserverpb.Member' }, repeated: true },
  ],
  'etcdserverpb.MemberListRequest': [
    { number: 1, name: 'linearizable', property: 'linearizable', type: { scalar: 'bool' } },
  ],
  'etcdserverpb.MemberListResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'members', property: 'members', type: { message: 'etcdserverpb.Member' }, repeated: true },
  ],
  'etcdserverpb.MemberPromoteRequest': [{ number: 1, name: 'ID', property: 'id', type: { scalar: 'uint64' } }],
  'etcdserverpb.MemberPromoteResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'members', property: 'members', type: { message: 'etcdserverpb.Member' }, repeated: true },
  ],
  'etcdserverpb.DefragmentRequest': [],
  'etcdserverpb.DefragmentResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.MoveLeaderRequest': [{ number: 1, name: 'targetID', property: 'targetId', type: { scalar: 'uint64' } }],
  'etcdserverpb.MoveLeaderResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.AlarmRequest': [
    { number: 1, name: 'action', property: 'action', type: { enum: 'etcdserverpb.AlarmRequest.AlarmAction' } },
    { number: 2, name: 'memberID', property: 'memberId', type: { scalar: 'uint64' } },
    { number: 3, name: 'alarm', property: 'alarm', type: { enum: 'etcdserverpb.AlarmType' } },
  ],
  'etcdserverpb.AlarmMember': [
    { number: 1, name: 'memberID', property: 'memberId', type: { scalar: 'uint64' } },
    { number: 2, name: 'alarm', property: 'alarm', type: { enum: 'etcdserverpb.AlarmType' } },
  ],
  'etcdserverpb.AlarmResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'alarms', property: 'alarms', type: { message: 'etcdserverpb.AlarmMember' }, repeated: true },
  ],
  'etcdserverpb.DowngradeRequest': [
    { number: 1, name: 'action', property: 'action', type: { enum: 'etcdserverpb.DowngradeRequest.DowngradeAction' } },
    { number: 2, name: 'version', property: 'version', type: { scalar: 'string' } },
  ],
  'etcdserverpb.DowngradeResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'version', property: 'version', type: { scalar: 'string' } },
  ],
  'etcdserverpb.DowngradeVersionTestRequest': [{ number: 1, name: 'ver', property: 'ver', type: { scalar: 'string' } }],
  'etcdserverpb.StatusRequest': [],
  'etcdserverpb.StatusResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'version', property: 'version', type: { scalar: 'string' } },
    { number: 3, name: 'dbSize', property: 'dbSize', type: { scalar: 'int64' } },
    { number: 4, name: 'leader', property: 'leader', type: { scalar: 'uint64' } },
    { number: 5, name: 'raftIndex', property: 'raftIndex', type: { scalar: 'uint64' } },
    { number: 6, name: 'raftTerm', property: 'raftTerm', type: { scalar: 'uint64' } },
    { number: 7, name: 'raftAppliedIndex', property: 'raftAppliedIndex', type: { scalar: 'uint64' } },
    { number: 8, name: 'errors', property: 'errors', type: { scalar: 'string' }, repeated: true },
    { number: 9, name: 'dbSizeInUse', property: 'dbSizeInUse', type: { scalar: 'int64' } },
    { number: 10, name: 'isLearner', property: 'isLearner', type: { scalar: 'bool' } },
    { number: 11, name: 'storageVersion', property: 'storageVersion', type: { scalar: 'string' } },
    { number: 12, name: 'dbSizeQuota', property: 'dbSizeQuota', type: { scalar: 'int64' } },
    { number: 13, name: 'downgradeInfo', property: 'downgradeInfo', type: { message: 'etcdserverpb.DowngradeInfo' } },
  ],
  'etcdserverpb.DowngradeInfo': [
    { number: 1, name: 'enabled', property: 'enabled', type: { scalar: 'bool' } },
    { number: 2, name: 'targetVersion', property: 'targetVersion', type: { scalar: 'string' } },
  ],
  'etcdserverpb.AuthEnableRequest': [],
  'etcdserverpb.AuthDisableRequest': [],
  'etcdserverpb.AuthStatusRequest': [],
  'etcdserverpb.AuthenticateRequest': [
    { number: 1, name: 'name', property: 'name', type: { scalar: 'string' } },
    { number: 2, name: 'password', property: 'password', type: { scalar: 'string' } },
  ],
  'etcdserverpb.AuthUserAddRequest': [
    { number: 1, name: 'name', property: 'name', type: { scalar: 'string' } },
    { number: 2, name: 'password', property: 'password', type: { scalar: 'string' } },
    { number: 3, name: 'options', property: 'options', type: { message: 'authpb.UserAddOptions' } },
    { number: 4, name: 'hashedPassword', property: 'hashedPassword', type: { scalar: 'string' } },
  ],
  'etcdserverpb.AuthUserGetRequest': [{ number: 1, name: 'name', property: 'name', type: { scalar: 'string' } }],
  'etcdserverpb.AuthUserDeleteRequest': [{ number: 1, name: 'name', property: 'name', type: { scalar: 'string' } }],
  'etcdserverpb.AuthUserChangePasswordRequest': [
    { number: 1, name: 'name', property: 'name', type: { scalar: 'string' } },
    { number: 2, name: 'password', property: 'password', type: { scalar: 'string' } },
    { number: 3, name: 'hashedPassword', property: 'hashedPassword', type: { scalar: 'string' } },
  ],
  'etcdserverpb.AuthUserGrantRoleRequest': [
    { number: 1, name: 'user', property: 'user', type: { scalar: 'string' } },
    { number: 2, name: 'role', property: 'role', type: { scalar: 'string' } },
  ],
  'etcdserverpb.AuthUserRevokeRoleRequest': [
    { number: 1, name: 'name', property: 'name', type: { scalar: 'string' } },
    { number: 2, name: 'role', property: 'role', type: { scalar: 'string' } },
  ],
  'etcdserverpb.AuthRoleAddRequest': [{ number: 1, name: 'name', property: 'name', type: { scalar: 'string' } }],
  'etcdserverpb.AuthRoleGetRequest': [{ number: 1, name: 'role', property: 'role', type: { scalar: 'string' } }],
  'etcdserverpb.AuthUserListRequest': [],
  'etcdserverpb.AuthRoleListRequest': [],
  'etcdserverpb.AuthRoleDeleteRequest': [{ number: 1, name: 'role', property: 'role', type: { scalar: 'string' } }],
  'etcdserverpb.AuthRoleGrantPermissionRequest': [
    { number: 1, name: 'name', property: 'name', type: { scalar: 'string' } },
    { number: 2, name: 'perm', property: 'perm', type: { message: 'authpb.Permission' } },
  ],
  'etcdserverpb.AuthRoleRevokePermissionRequest': [
    { number: 1, name: 'role', property: 'role', type: { scalar: 'string' } },
    { number: 2, name: 'key', property: 'key', type: { scalar: 'bytes' } },
    { number: 3, name: 'range_end', property: 'rangeEnd', type: { scalar: 'bytes' } },
  ],
  'etcdserverpb.AuthEnableResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.AuthDisableResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.AuthStatusResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'enabled', property: 'enabled', type: { scalar: 'bool' } },
    { number: 3, name: 'authRevision', property: 'authRevision', type: { scalar: 'uint64' } },
  ],
  'etcdserverpb.AuthenticateResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'token', property: 'token', type: { scalar: 'string' } },
  ],
  'etcdserverpb.AuthUserAddResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.AuthUserGetResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'roles', property: 'roles', type: { scalar: 'string' }, repeated: true },
  ],
  'etcdserverpb.AuthUserDeleteResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.AuthUserChangePasswordResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.AuthUserGrantRoleResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.AuthUserRevokeRoleResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.AuthRoleAddResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.AuthRoleGetResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'perm', property: 'perm', type: { message: 'authpb.Permission' }, repeated: true },
  ],
  'etcdserverpb.AuthRoleListResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'roles', property: 'roles', type: { scalar: 'string' }, repeated: true },
  ],
  'etcdserverpb.AuthUserListResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'users', property: 'users', type: { scalar: 'string' }, repeated: true },
  ],
  'etcdserverpb.AuthRoleDeleteResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.AuthRoleGrantPermissionResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.AuthRoleRevokePermissionResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'etcdserverpb.RangeStreamResponse': [
    { number: 1, name: 'range_response', property: 'rangeResponse', type: { message: 'etcdserverpb.RangeResponse' } },
  ],
  'v3lockpb.LockRequest': [
    { number: 1, name: 'name', property: 'name', type: { scalar: 'bytes' } },
    { number: 2, name: 'lease', property: 'lease', type: { scalar: 'int64' } },
  ],
  'v3lockpb.LockResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'key', property: 'key', type: { scalar: 'bytes' } },
  ],
  'v3lockpb.UnlockRequest': [{ number: 1, name: 'key', property: 'key', type: { scalar: 'bytes' } }],
  'v3lockpb.UnlockResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'v3electionpb.CampaignRequest': [
    { number: 1, name: 'name', property: 'name', type: { scalar: 'bytes' } },
    { number: 2, name: 'lease', property: 'lease', type: { scalar: 'int64' } },
    { number: 3, name: 'value', property: 'value', type: { scalar: 'bytes' } },
  ],
  'v3electionpb.CampaignResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'leader', property: 'leader', type: { message: 'v3electionpb.LeaderKey' } },
  ],
  'v3electionpb.LeaderKey': [
    { number: 1, name: 'name', property: 'name', type: { scalar: 'bytes' } },
    { number: 2, name: 'key', property: 'key', type: { scalar: 'bytes' } },
    { number: 3, name: 'rev', property: 'rev', type: { scalar: 'int64' } },
    { number: 4, name: 'lease', property: 'lease', type: { scalar: 'int64' } },
  ],
  'v3electionpb.LeaderRequest': [{ number: 1, name: 'name', property: 'name', type: { scalar: 'bytes' } }],
  'v3electionpb.LeaderResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
    { number: 2, name: 'kv', property: 'kv', type: { message: 'mvccpb.KeyValue' } },
  ],
  'v3electionpb.ResignRequest': [
    { number: 1, name: 'leader', property: 'leader', type: { message: 'v3electionpb.LeaderKey' } },
  ],
  'v3electionpb.ResignResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
  'v3electionpb.ProclaimRequest': [
    { number: 1, name: 'leader', property: 'leader', type: { message: 'v3electionpb.LeaderKey' } },
    { number: 2, name: 'value', property: 'value', type: { scalar: 'bytes' } },
  ],
  'v3electionpb.ProclaimResponse': [
    { number: 1, name: 'header', property: 'header', type: { message: 'etcdserverpb.ResponseHeader' } },
  ],
};

/** The numbers of each enum's values, by its full name. */
export const enumValues: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'mvccpb.Event.EventType': { PUT: 0, DELETE: 1 },
  'authpb.Permission.Type': { READ: 0, WRITE: 1, READWRITE: 2 },
  'etcdserverpb.AlarmType': { NONE: 0, NOSPACE: 1, CORRUPT: 2 },
  'etcdserverpb.RangeRequest.SortOrder': { NONE: 0, ASCEND: 1, DESCEND: 2 },
  'etcdserverpb.RangeRequest.SortTarget': { KEY: 0, VERSION: 1, CREATE: 2, MOD: 3, VALUE: 4 },
  'etcdserverpb.Compare.CompareResult': { EQUAL: 0, GREATER: 1, LESS: 2, NOT_EQUAL: 3 },
  'etcdserverpb.Compare.CompareTarget': { VERSION: 0, CREATE: 1, MOD: 2, VALUE: 3, LEASE: 4 },
  'etcdserverpb.WatchCreateRequest.FilterType': { NOPUT: 0, NODELETE: 1 },
  'etcdserverpb.AlarmRequest.AlarmAction': { GET: 0, ACTIVATE: 1, DEACTIVATE: 2 },
  'etcdserverpb.DowngradeRequest.DowngradeAction': { VALIDATE: 0, ENABLE: 1, CANCEL: 2 },
};
