import { type EtcdError, invalidInput, isBytes, NO_BYTES, show, textOf, toBytes } from '../../base/index.js';
import { Role, User } from '../../gen/authpb/auth.js';
import { AlarmMember, AlarmType, LeaseGrantRequest } from '../../gen/etcdserverpb/rpc.js';
import { Event } from '../../gen/mvccpb/kv.js';
import { type Codec, decode, encode, tableCodec } from '../../wire/index.js';
import type { AuthUser } from './auth-store.js';
import { type Change, commitsOf, eventOf } from './change.js';
import { Crc32c } from './crc32c.js';
import { keyId } from './key-range.js';
import type { Member } from './member.js';

// A snapshot of a member is not a bbolt database, so `etcdutl snapshot restore` and `etcdutl snapshot status` refuse
// it. A snapshot consists of a header of 512 bytes (a title, and the checksum and the length of the message), a
// protobuf message of type `SnapshotMessage`, and zero bytes. Its size is a multiple of 512, like the size of a
// database, because clients derive from the size whether a SHA-256 digest follows.

const utf8 = new TextEncoder();
const TITLE = utf8.encode('etcdwire MemoryEtcd snapshot 1\n');
const BLOCK_BYTES = 512;
/** The offset in the header of the length of the message, a 64-bit number. */
const LENGTH_AT = BLOCK_BYTES - 8;
/** The offset in the header of the CRC-32C of the message. */
const CHECKSUM_AT = LENGTH_AT - 4;

/** Returns the keys with their history, the leases, the users and roles, and the alarms of a member. */
export function takeSnapshot(member: Member): Uint8Array {
  const message = encode(SnapshotMessage, messageOf(member));
  const blocks = 1 + Math.ceil(message.length / BLOCK_BYTES);
  const snapshot = new Uint8Array(blocks * BLOCK_BYTES);
  snapshot.set(TITLE);
  const view = new DataView(snapshot.buffer);
  view.setUint32(CHECKSUM_AT, new Crc32c().update(message).digest());
  view.setBigUint64(LENGTH_AT, BigInt(message.length));
  snapshot.set(message, BLOCK_BYTES);
  return snapshot;
}

/**
 * Checks and decodes a snapshot, with or without the digest that the RPC `Snapshot` appends.
 *
 * @throws EtcdError with reason `InvalidInput` if the bytes are not a whole snapshot of a `MemoryEtcd`.
 */
export function parseSnapshot(given: Uint8Array): SnapshotMessage {
  const refuse = (what: string): EtcdError => invalidInput('snapshot', what, 'the bytes that `snapshot` has returned');
  if (!isBytes(given)) throw refuse(show(given));
  const snapshot = toBytes(given, 'snapshot');
  if (snapshot.length < BLOCK_BYTES || TITLE.some((byte, index) => byte !== snapshot[index]))
    throw refuse('bytes that do not start with the title of a snapshot of a MemoryEtcd');
  const view = new DataView(snapshot.buffer, snapshot.byteOffset, snapshot.byteLength);
  const end = BLOCK_BYTES + Number(view.getBigUint64(LENGTH_AT));
  if (end > snapshot.length) throw refuse(`an incomplete snapshot: ${end - snapshot.length} bytes are missing`);
  if (new Crc32c().update(snapshot.subarray(BLOCK_BYTES, end)).digest() !== view.getUint32(CHECKSUM_AT))
    throw refuse('a corrupt snapshot: its bytes do not have the checksum in its header');
  return decode(SnapshotMessage, snapshot, BLOCK_BYTES, end);
}

/**
 * Replaces the state of a member by that of a snapshot. All tokens become invalid, and all leases get their full TTL.
 */
export function restoreSnapshot(member: Member, message: SnapshotMessage): void {
  const { revision, compacted, authEnabled: enabled, authRevision } = message;
  member.store.restore({ revision, compacted, commits: commitsOf(message.changes.flatMap(changesOf)) });
  member.leases.restore(message.leases.map(({ id, ttl }) => ({ id, ttlSeconds: ttl })));
  member.auth.restore({
    enabled,
    revision: authRevision,
    users: message.users.map(userOf),
    roles: message.roles.map(({ name, keyPermission }) => ({ name: textOf(name), permissions: keyPermission })),
  });
  member.alarms.restore(message.alarms);
  member.keyHashes.reset();
}

interface ChangeMessage {
  index: bigint;
  event: Event | undefined;
}

const ChangeMessage: Codec<ChangeMessage> = tableCodec('etcdwire.memory.Change', 'u1index m2event', () => [Event]);

interface SnapshotMessage {
  revision: bigint;
  compacted: bigint;
  /** All changes, in the order in which they were made. */
  changes: ChangeMessage[];
  leases: LeaseGrantRequest[];
  authEnabled: boolean;
  authRevision: bigint;
  users: User[];
  roles: Role[];
  alarms: AlarmMember[];
}

const SnapshotMessage: Codec<SnapshotMessage> = tableCodec(
  'etcdwire.memory.Snapshot',
  'i1revision i2compacted m*3changes m*4leases b5authEnabled u6authRevision m*7users m*8roles m*9alarms',
  () => [ChangeMessage, LeaseGrantRequest, User, Role, AlarmMember],
);

function messageOf(member: Member): SnapshotMessage {
  const { revision, compacted, commits } = member.store.snapshot();
  const { enabled, revision: authRevision, users, roles } = member.auth.store.snapshot();
  return {
    revision,
    compacted,
    changes: commits.flatMap(({ changes }) =>
      changes.map((change) => ({ index: BigInt(change.index), event: eventOf(change) })),
    ),
    leases: member.leases.snapshot().map(({ id, ttlSeconds }) => ({ id, ttl: ttlSeconds })),
    authEnabled: enabled,
    authRevision,
    users: users.map(({ name, password, noPassword, roles }) => ({
      name: utf8.encode(name),
      password: password ?? NO_BYTES,
      roles: [...roles],
      options: { noPassword },
    })),
    roles: roles.map(({ name, permissions }) => ({ name: utf8.encode(name), keyPermission: [...permissions] })),
    alarms: member.alarms.list(AlarmType.NONE),
  };
}

function changesOf({ index, event }: ChangeMessage): Change[] {
  const { type, kv } = event ?? Event.create();
  return kv === undefined ? [] : [{ key: keyId(kv.key), type, index: Number(index), kv }];
}

function userOf({ name, password, roles, options }: User): AuthUser {
  const noPassword = options?.noPassword ?? false;
  return { name: textOf(name), password: password.length === 0 ? undefined : password, noPassword, roles };
}
