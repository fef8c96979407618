import { Connection } from './05-call.js';
import { CallError, startCall } from './06-status.js';

export interface Event {
  readonly type: 'put' | 'delete';
  readonly value: string;
  readonly revision: bigint;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/** Yields every change of a key since `startRevision`. Connects again if the connection is lost. */
export async function* watch(address: string, key: string, startRevision: bigint): AsyncGenerator<Event> {
  for (let next = startRevision; ; await pause(100)) {
    const connection = new Connection(address);
    try {
      const { messages, send } = startCall(connection, '/etcdserverpb.Watch/Watch');
      send({ 1: { 1: key, 3: next } });
      for await (const response of messages) {
        if (response.int(4) === 1n) throw new Error(`etcd canceled the watch: ${response.bytes(6)}`);
        for (const event of response.messages(11)) {
          const [kv] = event.messages(2);
          if (kv === undefined) continue;
          next = kv.int(3) + 1n;
          yield { type: event.int(1) === 0n ? 'put' : 'delete', value: `${kv.bytes(5)}`, revision: kv.int(3) };
        }
      }
    } catch (error) {
      if (!(error instanceof CallError && error.status === 14)) throw error;
    } finally {
      connection.close();
    }
  }
}
