import { EventType, type KeyValue as WireKeyValue } from '../gen/mvccpb/kv.js';
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

export function watchEvent(type: EventType, kv: WireKeyValue, prevKv: WireKeyValue | undefined): WatchEvent {
  return {
    type: type === EventType.DELETE ? 'delete' : 'put',
    kv: new KeyValue(kv),
    prevKv: prevKv && new KeyValue(prevKv),
  };
}

/** Roughly the memory that a batch takes. */
export function weightOf({ events }: WatchBatch): number {
  let weight = 0;
  for (const { kv, prevKv } of events) {
    weight += EVENT_OVERHEAD_BYTES + kv.key.length + kv.value.length;
    if (prevKv !== undefined) weight += prevKv.key.length + prevKv.value.length;
  }
  return weight;
}
