import {
  type FieldDescriptor,
  type KeyValueMessage,
  type LeaseGrantResponse,
  type LeaseKeepAliveResponse,
  type LeaseLeasesResponse,
  type LeaseTimeToLiveResponse,
  type MemberListResponse,
  messageFields,
  type ResponseHeader,
  toBase64,
} from '../../../../src/internal.js';
import { hexId } from '../output-base.js';
import { goJsonString } from './go-format.js';

// This file formats messages as Go's `encoding/json` formats the structs of etcd's Go client. Unlike in the JSON of
// etcd's gateway, 64-bit numbers and enum values are JSON numbers.

type Message = Readonly<Record<string, unknown>>;

/** Formats a message as Go formats the struct that gogo/protobuf generates for it: fields with no value are left out. */
export function goJson(typeName: string, message: object | undefined): string {
  if (message === undefined) return 'null';
  const fields = messageFields[typeName] ?? [];
  const members = fields.flatMap((field) => member(field, message as Message));
  return `{${[...members, ...oneofs(fields, message as Message)].join(',')}}`;
}

function member(field: FieldDescriptor, message: Message): readonly string[] {
  if (field.oneof !== undefined) return [];
  const value = message[field.property];
  if (isEmpty(value)) return [];
  const text = field.repeated
    ? `[${(value as readonly unknown[]).map((each) => goValue(field, each)).join(',')}]`
    : goValue(field, value);
  return [`${goJsonString(field.name)}:${text}`];
}

/** A oneof is a Go interface: a member with the name of the Go field, which contains an object with the chosen field. */
function oneofs(fields: readonly FieldDescriptor[], message: Message): readonly string[] {
  const names = new Set(fields.flatMap(({ oneof }) => (oneof === undefined ? [] : [oneof])));
  return [...names].map((name) => {
    const chosen = message[name] as { readonly case: string; readonly value: unknown } | undefined;
    const field = fields.find(({ property }) => property === chosen?.case);
    const text = field === undefined ? 'null' : `{${goJsonString(field.name)}:${goValue(field, chosen?.value)}}`;
    return `${goJsonString((name[0] ?? '').toUpperCase() + name.slice(1))}:${text}`;
  });
}

function isEmpty(value: unknown): boolean {
  if (value instanceof Uint8Array || Array.isArray(value)) return value.length === 0;
  return value === undefined || value === 0 || value === 0n || value === '' || value === false;
}

function goValue({ type }: FieldDescriptor, value: unknown): string {
  if ('message' in type) return goJson(type.message, value as object);
  if (value instanceof Uint8Array) return `"${toBase64(value)}"`;
  return typeof value === 'string' ? goJsonString(value) : String(value);
}

/** Formats the fields of a response header without braces, as Go formats an embedded struct. */
function embedded(header: ResponseHeader | undefined): string {
  const text = goJson('etcdserverpb.ResponseHeader', header ?? {}).slice(1, -1);
  return text === '' ? '' : `${text},`;
}

/** The responses for which etcd's Go client has a struct that differs from the message. */
export const GO_STRUCTS: Readonly<Record<string, (response: never) => string>> = {
  'etcdserverpb.LeaseGrantResponse': ({ header, id, ttl, error }: LeaseGrantResponse) =>
    `{${embedded(header)}"ID":${id},"TTL":${ttl},"Error":${goJsonString(error)}}`,
  'etcdserverpb.LeaseKeepAliveResponse': ({ header, id, ttl }: LeaseKeepAliveResponse) =>
    `{${embedded(header)}"ID":${id},"TTL":${ttl}}`,
  'etcdserverpb.LeaseTimeToLiveResponse': ({ header, id, ttl, grantedTtl, keys }: LeaseTimeToLiveResponse) => {
    const list = keys.length === 0 ? 'null' : `[${keys.map((key) => `"${toBase64(key)}"`).join(',')}]`;
    return `{${embedded(header)}"id":${id},"ttl":${ttl},"granted-ttl":${grantedTtl},"keys":${list}}`;
  },
  'etcdserverpb.LeaseLeasesResponse': ({ header, leases }: LeaseLeasesResponse) =>
    `{${embedded(header)}"leases":[${leases.map(({ id }) => `{"id":${id}}`).join(',')}]}`,
};

/** Formats a list of members with `--hex`. etcdctl leaves out the revision, and whether a member is a learner. */
export function hexMembersJson({ header, members }: MemberListResponse): string {
  const start = `{"header":{"cluster_id":"${hexId(header?.clusterId ?? 0n)}","member_id":"${hexId(header?.memberId ?? 0n)}"`;
  const listOf = (urls: readonly string[]): string =>
    urls.length === 0 ? 'null' : `[${urls.map(goJsonString).join(',')}]`;
  const list = members.map(
    ({ id, name, peerUrls, clientUrls }) =>
      `{"ID":"${hexId(id)}","name":"${name}","peerURLs":${listOf(peerUrls)},"clientURLs":${listOf(clientUrls)}}`,
  );
  return `${start},"raft_term":${header?.raftTerm ?? 0n}}${list.length === 0 ? '' : `,"members":[${list.join(',')}]`}}`;
}

/** The events of one response of a watch. */
export interface WatchedEvents {
  readonly header: ResponseHeader | undefined;
  readonly events: readonly {
    readonly type: 0 | 1;
    readonly kv: KeyValueMessage;
    readonly prevKv: KeyValueMessage | undefined;
  }[];
  readonly compactRevision?: bigint;
  readonly canceled?: boolean;
}

/** Formats a response as the struct `WatchResponse` of etcd's Go client. */
export function watchJson({ header, events, compactRevision = 0n, canceled = false }: WatchedEvents): string {
  const list = events.map((event) => goJson('mvccpb.Event', event));
  const head = goJson('etcdserverpb.ResponseHeader', header ?? {});
  return `{"Header":${head},"Events":[${list.join(',')}],"CompactRevision":${compactRevision},"Canceled":${canceled},"Created":false}`;
}
