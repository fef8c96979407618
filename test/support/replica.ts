import {
  type Client,
  type Keys,
  type Keyspace,
  type MirrorMessage,
  op,
  prefix,
  type WatchEvent,
} from '../../src/index.js';
import { valueText } from './watch-events.js';

/** Applies the messages of a mirror to a map of keys and values, as an application would. */
export class Replica {
  readonly #kvs = new Map<string, string>();
  /** The types of all messages, in order. */
  readonly types: MirrorMessage['type'][] = [];
  readonly events: string[] = [];
  /** For each revision, all keys and values after the message in which the mirror reported that revision. */
  readonly states = new Map<bigint, string[]>();
  syncedAt = 0n;

  take(message: MirrorMessage): void {
    this.types.push(message.type);
    switch (message.type) {
      case 'resync':
        return this.#kvs.clear();
      case 'keys':
        for (const kv of message.kvs) this.#kvs.set(kv.key, kv.text());
        return;
      case 'synced':
        this.syncedAt = message.revision;
        return this.#note(message.revision);
      case 'events':
        for (const event of message.events) {
          this.events.push(eventText(event));
          if (event.type === 'put') this.#kvs.set(event.key, event.kv.text());
          else this.#kvs.delete(event.key);
        }
        return this.#note(message.revision);
    }
  }

  get state(): string[] {
    return [...this.#kvs].map(([key, value]) => `${key}=${value}`).sort();
  }

  has(key: string): boolean {
    return this.#kvs.has(key);
  }

  #note(revision: bigint): void {
    this.states.set(revision, this.state);
  }
}

/** Reads the keys and values at a revision from the server. */
export async function stateAt(etcd: Keyspace, keys: Keys, revision: bigint): Promise<string[]> {
  return (await etcd.range(keys, { revision })).kvs.map((kv) => `${kv.key}=${kv.text()}`).sort();
}

/**
 * Reads every event after a revision under the prefix `start`, up to and including the first event of the key `last`.
 * Uses the raw API, so that the result does not depend on the client's own watch.
 */
export async function rawEvents(etcd: Client, start: string, after: bigint, last: string): Promise<string[]> {
  const key = new TextEncoder().encode(start);
  const rangeEnd = new TextEncoder().encode(
    `${start.slice(0, -1)}${String.fromCharCode(start.charCodeAt(start.length - 1) + 1)}`,
  );
  const stream = etcd.raw.watch.watch();
  stream.send({ requestUnion: { case: 'createRequest', value: { key, rangeEnd, startRevision: 1n } } });
  const events: string[] = [];
  for await (const response of stream) {
    for (const { type, kv } of response.events) {
      const { key: bytes, value, modRevision = 0n } = kv ?? {};
      if (modRevision <= after) continue;
      const text = new TextDecoder().decode(bytes);
      events.push(`${modRevision} ${type === 1 ? 'delete' : 'put'} ${text} ${new TextDecoder().decode(value)}`);
      if (text === last) return events;
    }
  }
  throw new Error('the watch ended before the last event');
}

/** Makes puts, deletions and transactions on a few keys, one after the other. */
export async function writeSome(etcd: Client, start: string, who: string, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    await etcd.put(`${start}${round % 7}`, `${who}.${round}`);
    await etcd.txn({ then: [op.put(`${start}a`, `${who}.${round}`), op.put(`${start}b`, `${who}.${round}`)] });
    await etcd.delete(round % 5 === 0 ? prefix(`${start}${round % 3}`) : `${start}${(round + 1) % 7}`);
  }
}

function eventText(event: WatchEvent): string {
  return `${event.modRevision} ${event.type} ${event.key} ${valueText(event)}`;
}
