import { Printable } from '../../base/index.js';
import { EventType, type Event as WireEvent, type KeyValue as WireKeyValue } from '../../gen/mvccpb/kv.js';
import { Keyed, KeyValue } from '../kv/key-value.js';
import { withoutPrefix } from '../kv/keys.js';

/** The fields that a put and a deletion have in common. */
abstract class KeyEvent extends Keyed {
  /** The revision of the event. */
  readonly modRevision: bigint;
  /**
   * The key as it was before the event. Undefined if the watch does not have the option `prevKv`, if the key did not
   * exist, or if its earlier revision is compacted.
   */
  readonly prevKv: KeyValue | undefined;

  /** @internal */
  constructor(kv: WireKeyValue, prevKv: WireKeyValue | undefined) {
    super(kv.key);
    this.modRevision = kv.modRevision;
    this.prevKv = prevKv && new KeyValue(prevKv);
  }
}

/**
 * A key was put.
 *
 * @example
 * const apply = (event: PutEvent): void => console.log(`${event.key} = ${event.kv.text()}`);
 * for await (const event of etcd.watch(prefix('config/'))) if (event.type === 'put') apply(event);
 */
export class PutEvent extends KeyEvent {
  /** @internal */
  static override readonly name = 'PutEvent';
  readonly type = 'put';
  /** The key with its new value. */
  readonly kv: KeyValue;

  /** @internal */
  constructor(kv: WireKeyValue, prevKv: WireKeyValue | undefined) {
    super(kv, prevKv);
    this.kv = new KeyValue(kv);
  }
}

/**
 * A key was deleted, by a request or at the end of its lease.
 *
 * @example
 * const log = (event: DeleteEvent): void => console.log(`${event.key} deleted at ${event.modRevision}`);
 * for await (const event of etcd.watch(prefix('config/'))) if (event.type === 'delete') log(event);
 */
export class DeleteEvent extends KeyEvent {
  /** @internal */
  static override readonly name = 'DeleteEvent';
  readonly type = 'delete';
}

/**
 * One change to one key: a put or a deletion. Both kinds have `key`, `modRevision` and `prevKv`. Only a put has `kv`.
 *
 * @example
 * const watch = etcd.watch('jobs/1');
 * await watch.created();
 * await etcd.put('jobs/1', 'todo');
 * await etcd.delete('jobs/1');
 * for await (const event of watch) {
 *   if (event.type === 'put') console.log(event.key, event.kv.text()); // jobs/1 todo
 *   else console.log(event.key, 'was deleted'); // jobs/1 was deleted
 *   if (event.type === 'delete') break;
 * }
 */
export type WatchEvent = PutEvent | DeleteEvent;

/**
 * All events of one revision that match the watch, in order. A batch without events, which only a watch with the option
 * `progress` delivers, means that the watch has no more events up to and including `revision`.
 *
 * @example
 * const watch = etcd.watch(prefix('jobs/'));
 * await watch.created();
 * await etcd.txn({ then: [op.put('jobs/1', 'todo'), op.put('jobs/2', 'todo')] });
 * for await (const { revision, events } of watch.batches()) {
 *   console.log(`revision ${revision} changed ${events.length} keys`); // … changed 2 keys
 *   break;
 * }
 */
export interface WatchBatch {
  readonly revision: bigint;
  readonly events: readonly WatchEvent[];
}

export class Batch extends Printable implements WatchBatch {
  static override readonly name = 'WatchBatch';
  readonly revision: bigint;
  readonly events: readonly WatchEvent[];

  constructor(revision: bigint, events: readonly WatchEvent[]) {
    super();
    this.revision = revision;
    this.events = events;
  }
}

/** Approximate number of bytes of memory that an event takes in addition to its keys and values. */
const EVENT_OVERHEAD_BYTES = 256;

/** Returns the approximate memory in bytes that a batch takes. */
export function weightOf({ events }: WatchBatch): number {
  let weight = 0;
  for (const event of events) {
    weight += EVENT_OVERHEAD_BYTES + event.keyBytes.length;
    if (event.type === 'put') weight += event.kv.value.length;
    if (event.prevKv !== undefined) weight += event.prevKv.keyBytes.length + event.prevKv.value.length;
  }
  return weight;
}

/**
 * Assembles whole revisions from responses. The server may split a response into fragments anywhere, even within a
 * revision. So the assembler keeps the events of the latest revision until the last fragment, or an event of the next
 * revision, shows that this revision is complete.
 */
export class RevisionAssembler {
  readonly #prefixLength: number;
  #revision = 0n;
  #events: WatchEvent[] = [];

  /** The events show the keys without their first `prefixLength` bytes. */
  constructor(prefixLength = 0) {
    this.#prefixLength = prefixLength;
  }

  /** Takes the events of a response and returns the revisions that are complete now. */
  push(events: readonly WireEvent[], moreFragments: boolean): WatchBatch[] {
    const whole: WatchBatch[] = [];
    for (const event of events) {
      if (event.kv === undefined) continue;
      if (event.kv.modRevision !== this.#revision) {
        this.#takeInto(whole);
        this.#revision = event.kv.modRevision;
      }
      const kv = this.#shown(event.kv);
      const prevKv = event.prevKv && this.#shown(event.prevKv);
      this.#events.push(event.type === EventType.DELETE ? new DeleteEvent(kv, prevKv) : new PutEvent(kv, prevKv));
    }
    if (!moreFragments) this.#takeInto(whole);
    return whole;
  }

  /** Whether the assembler keeps the events of an incomplete revision. */
  get hasPartial(): boolean {
    return this.#events.length > 0;
  }

  #shown(kv: WireKeyValue): WireKeyValue {
    return this.#prefixLength === 0 ? kv : withoutPrefix(kv, this.#prefixLength);
  }

  #takeInto(whole: WatchBatch[]): void {
    if (this.#events.length > 0) whole.push(new Batch(this.#revision, this.#events));
    this.#events = [];
  }
}
