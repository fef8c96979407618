import {
  type ActionLast,
  actionLast,
  BatchItemIterator,
  type BytesLike,
  checkCan,
  checkFunction,
  checkText,
  EtcdError,
  Printable,
  toBytes,
  validTextOf,
} from '../../base/index.js';
import {
  type CoreKeyspace,
  checkClient,
  checkKey,
  type DeleteOp,
  type GetOp,
  type GetOptions,
  type KeyRange,
  type KeyValue,
  keyOf,
  op,
  type PutOp,
  type PutOptions,
  type PutResult,
  parseJsonValue,
  prefix as prefixOf,
  type RangeOptions,
  type Watch,
  type WatchOptions,
} from '../../client/index.js';
import type { CallOptions, WithHeader, WriteOptions } from '../../rpc/index.js';
import { type CachedRange, type ChangesOptions, cachedRangeOf, type RangeChange } from '../ranges/index.js';
import {
  type CreateOptions,
  createKey,
  type ModifyOptions,
  modifyKey,
  type NotWritten,
  type Written,
} from './compare-and-set.js';

/**
 * Converts the values of a program to the values of keys, and back. `decode` throws if the bytes are not a valid value.
 *
 * @example
 * const sizes: ValueCodec<number> = {
 *   encode: String,
 *   decode: (bytes) => Number(new TextDecoder().decode(bytes)),
 * };
 */
export interface ValueCodec<T> {
  /** Returns the bytes or the text that is stored. */
  readonly encode: (value: T) => BytesLike;
  /** Returns the value of stored bytes. */
  readonly decode: (bytes: Uint8Array) => T;
}

export function checkCodec<T>(codec: ValueCodec<T>, argument: string): void {
  checkFunction(codec?.encode, `${argument}.encode`);
  checkFunction(codec?.decode, `${argument}.decode`);
}

/** Returns the value of stored bytes. @throws EtcdError with reason `InvalidValue` if the codec cannot decode them. */
export function decodeWith<T>(codec: Pick<ValueCodec<T>, 'decode'>, bytes: Uint8Array): T {
  try {
    return codec.decode(bytes);
  } catch (cause) {
    const details = { code: 'FailedPrecondition', reason: 'InvalidValue', outcome: 'not-sent', cause } as const;
    throw new EtcdError('the codec could not decode the value; the cause is what it has thrown', details);
  }
}

/**
 * Returns a codec for JSON. `parse` checks the value that `JSON.parse` returns, and throws if the value is wrong.
 * `parse` may be the method `parse` of a schema, for example of a zod schema. Default: no check.
 *
 * @example
 * const users = typed(etcd, 'users/', json((value) => value as { name: string }));
 * await users.put('ada', { name: 'Ada Lovelace' });
 * console.log((await users.get('ada'))?.value.name); // Ada Lovelace
 */
export function json<T>(parse: (value: unknown) => T = (value) => value as T): ValueCodec<T> {
  checkFunction(parse, 'parse');
  return {
    encode: (value) => JSON.stringify(value),
    decode: (bytes) => parse(parseJsonValue(bytes)),
  };
}

/** What belongs to one key, by the name of the key. */
class Named extends Printable {
  /** @internal */
  static override readonly name: string = 'Object';
  /** The whole key, with the prefix. */
  readonly keyBytes: Uint8Array;
  readonly #prefixLength: number;

  /** `prefixLength` is the number of UTF-16 code units of the prefix. */
  constructor(keyBytes: Uint8Array, prefixLength: number) {
    super();
    this.keyBytes = keyBytes;
    this.#prefixLength = prefixLength;
  }

  /** The key without the prefix. @throws EtcdError with reason `NotText` if the key is not UTF-8. */
  get name(): string {
    return keyOf(this.keyBytes).slice(this.#prefixLength);
  }

  /** @internal */
  override shown(): object {
    const name = validTextOf(this.keyBytes)?.slice(this.#prefixLength) ?? this.keyBytes;
    const { keyBytes: _, ...others } = this;
    return Object.assign({ name }, others);
  }
}

/**
 * A key with its decoded value. The codec decodes the value when the program first reads `value` or `error`.
 *
 * @example
 * const users = typed(etcd, 'users/', json((value) => value as { name: string }));
 * for (const user of await users.range()) {
 *   if (user.error === undefined) console.log(user.name, user.value);
 *   else console.log(user.name, user.error.cause);
 * }
 */
export class TypedKeyValue<T> extends Named {
  /** @internal The class name that `console.log` shows. It is set here, because a bundler may rename the class. */
  static override readonly name = 'TypedKeyValue';
  /** The key with the value in its encoded form. */
  readonly kv: KeyValue;
  readonly #codec: ValueCodec<T>;
  #decoded: { readonly value: T } | { readonly error: EtcdError } | undefined;

  /** @internal */
  constructor(prefixLength: number, kv: KeyValue, codec: ValueCodec<T>) {
    super(kv.keyBytes, prefixLength);
    this.kv = kv;
    this.#codec = codec;
  }

  /** @internal */
  override shown(): object {
    const { kv, ...named } = super.shown() as { readonly kv: KeyValue };
    return { ...named, ...this.#decode(), kv };
  }

  /** The value. @throws EtcdError with reason `InvalidValue` if the codec could not decode it; see `error`. */
  get value(): T {
    const decoded = this.#decode();
    if ('error' in decoded) throw decoded.error;
    return decoded.value;
  }

  /**
   * An error if the codec could not decode the value. The `cause` of the error is what the codec has thrown. Undefined
   * if the value is valid.
   */
  get error(): EtcdError | undefined {
    const decoded = this.#decode();
    return 'error' in decoded ? decoded.error : undefined;
  }

  #decode(): { readonly value: T } | { readonly error: EtcdError } {
    if (this.#decoded !== undefined) return this.#decoded;
    try {
      this.#decoded = { value: decodeWith(this.#codec, this.kv.value) };
    } catch (error) {
      this.#decoded = { error: error as EtcdError };
    }
    return this.#decoded;
  }
}

/** A change of a typed key: a put with the new state, or a deletion. */
export interface TypedChange<T> {
  readonly type: 'put' | 'delete';
  /** The key without the prefix. Reading it throws an EtcdError with reason `NotText` if the key is not UTF-8. */
  readonly name: string;
  /** The whole key, with the prefix. */
  readonly keyBytes: Uint8Array;
  /** The new state. Undefined for a deletion. */
  readonly kv: TypedKeyValue<T> | undefined;
  /**
   * The state before the change. Undefined if the key did not exist. In a watch, also undefined without the option
   * `prevKv`, or if the earlier revision is compacted.
   */
  readonly old: TypedKeyValue<T> | undefined;
}

/** A cached range whose values are decoded. */
export interface TypedCachedRange<T, Cached = CachedRange> extends AsyncDisposable {
  /** The cached range with the encoded values, for its other methods. */
  readonly cached: Cached;
  /** Returns a key from memory, or undefined if the key does not exist. */
  get(name: string): TypedKeyValue<T> | undefined;
  /** Returns all keys from memory, in the order of their names. */
  range(): readonly TypedKeyValue<T>[];
  /** Yields the same changes as `CachedRange.changes`, with decoded values. */
  changes(options?: ChangesOptions): AsyncIterableIterator<TypedChange<T>>;
}

/** A watch whose events are decoded. */
export interface TypedWatch<T> extends AsyncIterableIterator<TypedChange<T>> {
  /** Resolves with the revision of the store at which the server created the watch; see `Watch.created`. */
  created(): Promise<bigint>;
}

/**
 * Returns the keys under `prefix` as values of one type. Names are keys without the prefix. A value that the codec
 * cannot decode never ends a watch: `TypedKeyValue.error` reports it.
 *
 * @throws EtcdError with reason `InvalidInput` if an argument is invalid.
 *
 * @example
 * const sizes = typed(etcd, 'sizes/', json(Number));
 * await sizes.put('small', 10);
 * console.log((await sizes.get('small'))?.value); // 10
 */
export function typed<T>(client: CoreKeyspace, prefix: string, codec: ValueCodec<T>): TypedKeys<T> {
  return new TypedKeys(client, prefix, codec);
}

/**
 * The keys under a prefix as values of one type. `typed` creates this object.
 *
 * @example
 * const sizes: TypedKeys<number> = typed(etcd, 'sizes/', json(Number));
 * await sizes.modify('small', (old) => (old?.value ?? 0) + 1);
 */
export class TypedKeys<T> {
  /** All keys under the prefix, for `op.range`, `etcd.delete` and other calls that accept a range. */
  readonly all: KeyRange;
  readonly #client: CoreKeyspace;
  readonly #prefix: string;
  readonly #codec: ValueCodec<T>;

  /** @internal */
  constructor(client: CoreKeyspace, prefix: string, codec: ValueCodec<T>) {
    this.#client = checkClient(client);
    this.all = prefixOf(checkText(prefix, 'prefix'));
    checkCodec(codec, 'codec');
    this.#prefix = prefix;
    this.#codec = codec;
  }

  /** Returns the whole key of a name, for `compare` and other calls. */
  key(name: string): string {
    checkKey(checkText(name, 'name'), 'name');
    return this.#prefix + name;
  }

  /** Reads a key. Returns undefined if the key does not exist. */
  async get(name: string, options?: GetOptions & CallOptions): Promise<TypedKeyValue<T> | undefined> {
    return this.decode(await this.#client.get(this.key(name), options));
  }

  /** Reads all keys under the prefix. */
  async range(options?: RangeOptions & CallOptions): Promise<readonly TypedKeyValue<T>[]> {
    const { kvs } = await this.#client.range(this.all, options);
    return kvs.map((kv) => this.decode(kv));
  }

  /** Puts a key with the encoded value; see `KV.put`. */
  async put(name: string, value: T, options?: PutOptions & WriteOptions): Promise<WithHeader<PutResult>> {
    return this.#client.put(this.key(name), this.#codec.encode(value), options);
  }

  /** Puts a key if the key does not exist; see `createKey`. */
  async create(name: string, value: T, options?: CreateOptions): Promise<WithHeader<Written | NotWritten<'exists'>>> {
    return createKey(this.#client, this.key(name), this.#codec.encode(value), options);
  }

  /** Calculates a new value from the old value, and puts the new value; see `modifyKey`. */
  async modify(
    name: string,
    ...last: ActionLast<ModifyOptions, (old: TypedKeyValue<T> | undefined) => T | undefined | Promise<T | undefined>>
  ): Promise<{ readonly changed: boolean; readonly old: TypedKeyValue<T> | undefined }> {
    const [options, change] = actionLast(last, 'change');
    const encodedChange = async (kv: KeyValue | undefined): Promise<BytesLike | undefined> => {
      const value = await change(this.decode(kv));
      return value === undefined ? undefined : toBytes(this.#codec.encode(value), 'value');
    };
    const { changed, old } = await modifyKey(this.#client, this.key(name), options, encodedChange);
    return { changed, old: this.decode(old) };
  }

  /** Deletes a key. Resolves with whether the key existed. */
  async delete(name: string, options?: WriteOptions): Promise<boolean> {
    return (await this.#client.delete(this.key(name), options)).deleted > 0;
  }

  /** Watches all keys under the prefix. The options are those of `watch`. Breaking out of the loop ends the watch. */
  watch(options?: WatchOptions): TypedWatch<T> {
    const watch: Watch = this.#client.watch(this.all, options);
    const changes = new BatchItemIterator(watch.batches(), ({ events }) =>
      events.map((event) => this.#change(event, event.type === 'put' ? event.kv : undefined, event.prevKv)),
    );
    return Object.assign(changes, { created: () => watch.created() });
  }

  /** Keeps all keys under the prefix in memory; see `Keyspace.cachedRange`. */
  async cachedRange(options?: Pick<CallOptions, 'signal' | 'timeoutMs'>): Promise<TypedCachedRange<T>> {
    return this.cachedBy(await cachedRangeOf(this.#client, this.all, options));
  }

  /** @internal Returns the client or the namespace that contains the keys. */
  keyspace(): CoreKeyspace {
    return this.#client;
  }

  /** @internal Returns a cached range of these keys with decoded values. */
  cachedBy<Cached extends Omit<CachedRange, 'state'>>(cached: Cached): TypedCachedRange<T, Cached> {
    return {
      cached,
      get: (name) => this.decode(cached.get(this.key(name))),
      range: () => cached.range().map((kv) => this.decode(kv)),
      changes: (changesOptions) =>
        new BatchItemIterator(cached.changes(changesOptions), (change) => [
          this.#change(change, change.kv, change.old),
        ]),
      [Symbol.asyncDispose]: () => cached.close(),
    };
  }

  /** Decodes a key that another call has returned, such as the result of a transaction. */
  decode(kv: KeyValue): TypedKeyValue<T>;
  decode(kv: KeyValue | undefined): TypedKeyValue<T> | undefined;
  decode(kv: KeyValue | undefined): TypedKeyValue<T> | undefined {
    if (kv === undefined) return undefined;
    checkCan(kv, 'json', 'kv', 'a KeyValue');
    return new TypedKeyValue(this.#prefix.length, kv, this.#codec);
  }

  /**
   * Returns the operation of a transaction that reads the key; see `op.get`. Pass the result of the operation to
   * `decode`.
   */
  opGet(name: string, options?: GetOptions): GetOp {
    return op.get(this.key(name), options);
  }

  /** Returns the operation of a transaction that puts the key; see `op.put`. */
  opPut(name: string, value: T, options?: PutOptions): PutOp {
    return op.put(this.key(name), this.#codec.encode(value), options);
  }

  /** Returns the operation of a transaction that deletes the key; see `op.delete`. */
  opDelete(name: string): DeleteOp {
    return op.delete(this.key(name));
  }

  #change(
    { type, keyBytes }: Pick<RangeChange, 'type' | 'keyBytes'>,
    kv: KeyValue | undefined,
    old: KeyValue | undefined,
  ): TypedChange<T> {
    return Object.assign(new Named(keyBytes, this.#prefix.length), {
      type,
      kv: this.decode(kv),
      old: this.decode(old),
    });
  }
}
