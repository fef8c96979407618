import { setTimeout as pause } from 'node:timers/promises';
import { Connection } from '../05-call.js';
import { CallError, startCall } from '../06-status.js';
import type { Event } from '../07-watch.js';

/** A change of one of several keys. */
export type KeyEvent = Event & { readonly key: string; readonly previous: string };

/** The key after all keys with a prefix: the prefix with its last byte increased by one. */
function endOf(prefix: string): Buffer {
  const end = Buffer.from(prefix);
  end.writeUInt8(end.readUInt8(end.length - 1) + 1, end.length - 1);
  return end;
}

/**
 * Exercise 1: yields every change of the keys with a prefix, the changes of a transaction in one array. Exercise 2: the
 * changes contain the values from before. Exercise 3: throws an error with a property `compactRevision` if etcd has
 * deleted the history that the watch needs.
 */
export async function* watchPrefix(address: string, prefix: string, startRevision: bigint): AsyncGenerator<KeyEvent[]> {
  for (let next = startRevision; ; await pause(100)) {
    const connection = new Connection(address);
    try {
      const { messages, send } = startCall(connection, '/etcdserverpb.Watch/Watch');
      send({ 1: { 1: prefix, 2: endOf(prefix), 3: next, 6: 1 } });
      for await (const response of messages) {
        const compactRevision = response.int(5);
        if (compactRevision > 0n) throw Object.assign(new Error('the history is compacted'), { compactRevision });
        if (response.int(4) === 1n) throw new Error(`etcd canceled the watch: ${response.bytes(6)}`);
        const events = response.messages(11).flatMap((event): KeyEvent[] => {
          const [type, previous] = [event.int(1) === 0n ? ('put' as const) : ('delete' as const), event.messages(3)[0]];
          const before = `${previous?.bytes(5) ?? ''}`;
          return event.messages(2).map((kv) => {
            const [key, value, revision] = [`${kv.bytes(1)}`, `${kv.bytes(5)}`, kv.int(3)];
            return { type, key, value, revision, previous: before };
          });
        });
        const last = events.at(-1);
        // All events of a transaction are in one response, so the watch resumes after the whole response.
        if (last !== undefined) next = last.revision + 1n;
        if (last !== undefined) yield events;
      }
    } catch (error) {
      if (!(error instanceof CallError && error.status === 14)) throw error;
    } finally {
      connection.close();
    }
  }
}
