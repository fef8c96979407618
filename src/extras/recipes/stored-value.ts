import { Printable } from '../../base/index.js';
import { decodeWith, type ValueCodec } from '../keys/index.js';

export type Decoder<T> = Pick<ValueCodec<T>, 'decode'>;

/** What has the value of a job. */
export class StoredValue<T> extends Printable {
  /** The value as it is stored. */
  readonly bytes: Uint8Array;
  readonly #codec: Decoder<T>;
  #decoded: { readonly value: T } | undefined;

  /** @internal */
  constructor(bytes: Uint8Array, codec: Decoder<T>) {
    super();
    this.bytes = bytes;
    this.#codec = codec;
  }

  /** @internal */
  override shown(): object {
    const { bytes: value, ...others } = this;
    return { ...others, value };
  }

  /**
   * The value: bytes, or what the `codec` of the queue returns for them.
   *
   * @throws EtcdError with reason `InvalidValue` if the codec cannot decode the bytes.
   */
  get value(): T {
    this.#decoded ??= { value: decodeWith(this.#codec, this.bytes) };
    return this.#decoded.value;
  }
}
