import { EventType, type Event as WireEvent } from '../gen/mvccpb/kv.js';
import { KeyValue } from '../kv/key-value.js';

/** One change of one key. */
export interface WatchEvent {
  readonly type: 'put' | 'delete';
  /** The key after the change. Of a deletion only `key` and `modRevision` mean anything. */
  readonly kv: KeyValue;
  /** The key before the change, if `prevKv` was asked for, it existed, and its revision is not compacted. */
  readonly prevKv: KeyValue | undefined;
}

/** All events of one revision that the watch covers, in order. */
export interface WatchBatch {
  readonly revision: bigint;
  readonly events: readonly WatchEvent[];
}

/** What an event weighs beside its keys and values, roughly. */
const EVENT_OVERHEAD_BYTES = 256;

export function watchEvent({ type, kv, prevKv }: WireEvent & { kv: NonNullable<WireEvent['kv']> }): WatchEvent {
  return {
    type: type === EventType.DELETE ? 'delete' : 'put',
    kv: new KeyValue(kv),
    prevKv: prevKv && new KeyValue(prevKv),
  };
}

/** Roughly the memory that a batch takes. */
export function weightOf({ events }: WatchBatch): number {
  const weight = (kv: KeyValue | undefined): number => (kv === undefined ? 0 : kv.key.length + kv.value.length);
  return events.reduce((sum, { kv, prevKv }) => sum + EVENT_OVERHEAD_BYTES + weight(kv) + weight(prevKv), 0);
}
