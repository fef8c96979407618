import { fromJson, fromTextOrBase64, type JsonObject } from '../../extras/transports/json/index.js';
import { type Event, EventType, KeyValue } from '../../gen/mvccpb/kv.js';
import { byRevision, type Change, commitsOf } from '../memory/change.js';
import { KeyRange, keyId } from '../memory/key-range.js';
import type { MemoryEtcd } from '../memory/memory-etcd.js';
import type { RecordedState } from './recording.js';

/** Puts a new `MemoryEtcd` into the state before a recording, except for the users. */
export function seed(server: MemoryEtcd, { revision, keys = [], leases = {} }: RecordedState): void {
  const { member } = server;
  const changes = keys.map((json): Change => {
    const kv = fromJson(KeyValue, json, { bytesFromJson: fromTextOrBase64 });
    const type = kv.createRevision === 0n ? EventType.DELETE : EventType.PUT;
    return { key: keyId(kv.key), type, kv, index: 0 };
  });
  member.leases.restore(
    Object.entries(leases).map(([id, ttl]) => ({ id: BigInt(`0x${id}`), ttlSeconds: BigInt(ttl) })),
  );
  const commits = commitsOf(changes)
    .map((commit) => ({ ...commit, changes: commit.changes.map((change, index) => ({ ...change, index })) }))
    .sort(byRevision);
  member.store.restore({ revision: BigInt(revision), compacted: -1n, commits });
}

/** Makes changes at one revision, without the checks of a request. */
export function write(server: MemoryEtcd, events: readonly Event[]): void {
  const transaction = server.member.store.write();
  for (const { type, kv = KeyValue.create() } of events) {
    if (type === EventType.DELETE) transaction.delete(new KeyRange(kv.key, new Uint8Array(0)));
    else transaction.put(kv.key, kv.value, kv.lease);
  }
  transaction.commit();
}

/** The password of a user, as the first login of the recording shows it: asterisks. */
export function passwordOf(user: string, requests: readonly JsonObject[]): string {
  return String(requests.find(({ name }) => name === user)?.password ?? '*');
}
