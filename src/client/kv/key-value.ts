import { checkFunction, EtcdError, Printable, textOf, validTextOf } from '../../base/index.js';
import type * as mvccpb from '../../gen/mvccpb/kv.js';

/** Returns the text of a key. @throws EtcdError with reason `NotText` if the key is not UTF-8. */
export function keyOf(bytes: Uint8Array): string {
  const text = validTextOf(bytes);
  if (text !== undefined) return text;
  const details = { code: 'FailedPrecondition', reason: 'NotText', outcome: 'not-sent' } as const;
  throw new EtcdError('the key is not UTF-8, so it has no text; read keyBytes', details);
}

/** What belongs to one key. */
export class Keyed extends Printable {
  /** @internal */
  static override readonly name: string = 'Object';
  /** The key. */
  readonly keyBytes: Uint8Array;

  /** @internal */
  constructor(keyBytes: Uint8Array) {
    super();
    this.keyBytes = keyBytes;
  }

  /** The key as text. @throws EtcdError with reason `NotText` if the key is not UTF-8: read `keyBytes` then. */
  get key(): string {
    return keyOf(this.keyBytes);
  }

  /** @internal */
  override shown(): object {
    const { keyBytes: key, ...others } = this;
    return { key, ...others };
  }
}

/**
 * A key and its value at one revision of the store.
 *
 * @example
 * const kv = await etcd.get('config/size');
 * if (kv !== undefined) console.log(kv.key, kv.text(), kv.modRevision);
 */
export class KeyValue extends Keyed {
  /** @internal The class name that `console.log` shows. It is set here, because a bundler may rename the class. */
  static override readonly name = 'KeyValue';
  /**
   * The value as bytes. `text()` and `json()` decode it. `toString()` of these bytes returns numbers, such as `49,50`.
   * Empty if the key was read with `keysOnly`.
   */
  readonly value: Uint8Array;
  /** Revision at which the key was created. A key that is put after a deletion is created again. */
  readonly createRevision: bigint;
  /** Revision of the key's last put. */
  readonly modRevision: bigint;
  /** Number of puts since the key was created. The put that creates the key counts, so `version` is at least 1n. */
  readonly version: bigint;
  /** ID of the lease that the key is attached to; 0n if the key has no lease. */
  readonly lease: bigint;

  /** @internal */
  constructor(kv: mvccpb.KeyValue) {
    super(kv.key);
    this.value = kv.value;
    this.createRevision = kv.createRevision;
    this.modRevision = kv.modRevision;
    this.version = kv.version;
    this.lease = kv.lease;
  }

  /** Decodes the value as UTF-8. Malformed bytes become U+FFFD. */
  text(): string {
    return textOf(this.value);
  }

  /**
   * Parses the value as JSON. `parse` converts the result, or throws if the result is not what the program expects.
   * `parse` may be the method `parse` of a schema, for example of a zod schema.
   *
   * @throws EtcdError with reason `InvalidJson` if the value is not JSON, or if `parse` throws. The cause of the error
   * is a `SyntaxError`, or the error of `parse`.
   *
   * @example
   * const size = (await etcd.get('config/size'))?.json(Number);
   */
  json(): unknown;
  json<T>(parse: (json: unknown) => T): T;
  json(parse: (json: unknown) => unknown = (json) => json): unknown {
    checkFunction(parse, 'parse');
    let json: unknown;
    try {
      json = parseJson(this.text(), 'text');
    } catch (error) {
      throw invalidJson('is not JSON', error);
    }
    try {
      return parse(json);
    } catch (error) {
      throw invalidJson('is JSON, but not what the program expects', error);
    }
  }

  /** Returns `key = value`, for messages that people read. Malformed UTF-8 becomes U+FFFD. */
  override toString(): string {
    return `${textOf(this.keyBytes)} = ${this.text()}`;
  }
}

/** Returns the key as the message of etcd's requests and responses. */
export function wireOf({
  keyBytes: key,
  value,
  createRevision,
  modRevision,
  version,
  lease,
}: KeyValue): mvccpb.KeyValue {
  return { key, value, createRevision, modRevision, version, lease };
}

/**
 * Parses JSON. `what` is the name of the text in the message of the error. Does not pass on the error of `JSON.parse`,
 * because that error may quote the value, and errors of this package never contain values.
 */
export function parseJson(text: string, what: 'text' | 'value'): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new SyntaxError(`the ${what} is not JSON`);
  }
}

/** Parses a value that must be JSON in UTF-8. Throws like `parseJson`. */
export function parseJsonValue(bytes: Uint8Array): unknown {
  return parseJson(validTextOf(bytes) ?? '', 'value');
}

function invalidJson(problem: string, cause: unknown): EtcdError {
  return new EtcdError(`the value of the key ${problem}`, {
    code: 'FailedPrecondition',
    reason: 'InvalidJson',
    outcome: 'not-sent',
    cause,
  });
}
