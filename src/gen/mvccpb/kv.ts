// Written by scripts/generate.ts from proto/mvccpb/kv.proto. Do not edit.

import { NO_BYTES } from '../../base/index.js';
import type { Codec } from '../../wire/index.js';

/** A key at one revision. */
export interface KeyValue {
  /** The key. Never empty. */
  key: Uint8Array;
  /** Revision at which the key was created. 0 for a key that does not exist. */
  createRevision: bigint;
  /** Revision of the last change to the key. */
  modRevision: bigint;
  /** Number of puts since the key was created. 1 for a new key, 0 in a deletion event. */
  version: bigint;
  /** The value. May be empty. */
  value: Uint8Array;
  /** ID of the lease that the key is attached to. 0 if the key has no lease. */
  lease: bigint;
}

export const KeyValue: Codec<KeyValue> = {
  typeName: 'mvccpb.KeyValue',
  create: () => ({ key: NO_BYTES, createRevision: 0n, modRevision: 0n, version: 0n, value: NO_BYTES, lease: 0n }),
  write(writer, message) {
    writer.bytesField(10, message.key);
    writer.int64Field(16, message.createRevision);
    writer.int64Field(24, message.modRevision);
    writer.int64Field(32, message.version);
    writer.bytesField(42, message.value);
    writer.int64Field(48, message.lease);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.key = reader.bytes();
          break;
        case 16:
          message.createRevision = reader.int64();
          break;
        case 24:
          message.modRevision = reader.int64();
          break;
        case 32:
          message.version = reader.int64();
          break;
        case 42:
          message.value = reader.bytes();
          break;
        case 48:
          message.lease = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The kind of a change. */
export const EventType = {
  /** The key was created or overwritten. */
  PUT: 0,
  /** The key was deleted, by a request or because its lease ended. */
  DELETE: 1,
} as const;
/** The kind of a change. */
export type EventType = (typeof EventType)[keyof typeof EventType];

/** A change of a key. */
export interface Event {
  /** What happened to the key. */
  type: EventType;
  /** The key after the change. For a deletion, only key and mod_revision are set. */
  kv: KeyValue | undefined;
  /**
   * The key before the change. Set if the watch requested it, the key existed, and its previous revision has not been
   * compacted.
   */
  prevKv: KeyValue | undefined;
}

export const Event: Codec<Event> = {
  typeName: 'mvccpb.Event',
  create: () => ({ type: 0, kv: undefined, prevKv: undefined }),
  write(writer, message) {
    writer.int32Field(8, message.type);
    writer.messageField(18, KeyValue, message.kv);
    writer.messageField(26, KeyValue, message.prevKv);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.type = reader.int32() as EventType;
          break;
        case 18:
          message.kv = reader.message(KeyValue, message.kv);
          break;
        case 26:
          message.prevKv = reader.message(KeyValue, message.prevKv);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};
