import { checkFunction, EtcdError, Printable, textOf, validTextOf } from '../../base/index.js';
import type * as mvccpb from '../../gen/mvccpb/kv.js';

/**
 * A key and its value at one revision of the store.
 *
 * @example
 * const kv = await etcd.get('config/size');
 * if (kv !== undefined) console.log(kv.keyText(), kv.text(), kv.modRevision);
 */
export class KeyValue extends Printable {
  /** @internal The class name that `console.log` shows. It is set here, because a bundler may rename the class. */
  static override readonly name = 'KeyValue';
  readonly key: Uint8Array;
  /** The value. Empty if the key was read with `keysOnly`. */
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
    super();
    this.key = kv.key;
    this.value = kv.value;
    this.createRevision = kv.createRevision;
    this.modRevision = kv.modRevision;
    this.version = kv.version;
    this.lease = kv.lease;
  }

  /** Decodes the key as UTF-8. Malformed bytes become U+FFFD. */
  keyText(): string {
    return textOf(this.key);
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
    return `${this.keyText()} = ${this.text()}`;
  }
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
