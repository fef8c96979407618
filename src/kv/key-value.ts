import type * as mvccpb from '../gen/mvccpb/kv.js';
import { textOf } from '../runtime/bytes.js';

/** One key as of one revision. */
export class KeyValue {
  /** Bundlers call it otherwise where there is another of that name, and who prints one sees it. */
  static readonly name = 'KeyValue';
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  /** Revision at which this life of the key began. */
  readonly createRevision: bigint;
  /** Revision of the last change. */
  readonly modRevision: bigint;
  /** Number of puts in this life of the key. */
  readonly version: bigint;
  /** Lease the key is attached to, 0n for none. */
  readonly lease: bigint;

  /** @internal */
  constructor(kv: mvccpb.KeyValue) {
    this.key = kv.key;
    this.value = kv.value;
    this.createRevision = kv.createRevision;
    this.modRevision = kv.modRevision;
    this.version = kv.version;
    this.lease = kv.lease;
  }

  /** The key as UTF-8 text. */
  keyText(): string {
    return textOf(this.key);
  }

  /** The value as UTF-8 text. */
  text(): string {
    return textOf(this.value);
  }

  /** The value parsed as JSON; that it is a `T` is the caller's word. @throws SyntaxError when it is no JSON. */
  json<T>(): T {
    try {
      return JSON.parse(this.text()) as T;
    } catch {
      // Not the host's own error, which quotes the value.
      throw new SyntaxError('the value is no JSON');
    }
  }
}
