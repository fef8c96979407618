import type { Endpoint } from '../../host/endpoint.js';
import type { Metadata } from '../transport.js';
import { HpackEncoder, neverIndexedBytes, writeNeverIndexed } from './hpack/encoder.js';
import { entryBytes, type HeaderField } from './hpack/tables.js';

const TIMEOUT_HEADER = 'grpc-timeout';
/** The maximum number in the value of `grpc-timeout`, because gRPC allows at most eight digits. */
const MAX_TIMEOUT = 99_999_999;
/** The units of `grpc-timeout` that the client uses, smallest first: milliseconds, seconds, minutes, hours. */
const TIMEOUT_UNITS: readonly (readonly [unit: string, ms: number])[] = [
  ['m', 1],
  ['S', 1_000],
  ['M', 60_000],
  ['H', 3_600_000],
];

/** The encoded header fields that are the same for every call of a method. */
interface Block {
  /** The version of the encoder's dynamic table for which the block is valid. */
  readonly version: number;
  readonly bytes: Uint8Array;
  /** The size of the fields, as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
  readonly listBytes: number;
}

/** Encodes the headers of requests. https://grpc.github.io/grpc/core/md_doc__p_r_o_t_o_c_o_l-_h_t_t_p2.html */
export class RequestHeaders {
  readonly #encoder = new HpackEncoder();
  readonly #blocks = new Map<string, Block>();
  readonly #endpoint: Endpoint;

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint;
  }

  resizeTable(bytes: number): void {
    this.#encoder.resize(bytes);
  }

  /**
   * Returns the encoded fields that are the same for every call of the method. The caller must send the block, because
   * otherwise the peer's dynamic table would no longer equal the table of the encoder.
   */
  block(path: string): Uint8Array {
    const cached = this.#blocks.get(path);
    if (cached !== undefined && cached.version === this.#encoder.version) return cached.bytes;
    const { version } = this.#encoder;
    const fields = this.#fields(path);
    const bytes = this.#encoder.encode(fields);
    if (version === this.#encoder.version) this.#blocks.set(path, { version, bytes, listBytes: listBytesOf(fields) });
    return bytes;
  }

  /** Returns the size of all fields of a request, as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
  listBytes(path: string, timeout: string, metadata: Metadata | undefined): number {
    let bytes = this.#blocks.get(path)?.listBytes ?? listBytesOf(this.#fields(path));
    if (timeout !== '') bytes += entryBytes([TIMEOUT_HEADER, timeout]);
    for (const name in metadata) bytes += entryBytes([name, metadata[name] as string]);
    return bytes;
  }

  #fields(path: string): readonly HeaderField[] {
    const { address, tls, url } = this.#endpoint;
    return [
      [':method', 'POST'],
      [':scheme', tls ? 'https' : 'http'],
      [':path', path],
      [':authority', 'path' in address ? 'localhost' : url.replace(/^https?:\/\//, '')],
      ['te', 'trailers'],
      ['content-type', 'application/grpc'],
      ['user-agent', 'etcdwire'],
    ];
  }
}

/** Returns the number of bytes that `writeCallFields` writes. */
export function callFieldsBytes(timeout: string, metadata: Metadata | undefined): number {
  let bytes = timeout === '' ? 0 : neverIndexedBytes(TIMEOUT_HEADER, timeout);
  for (const name in metadata) bytes += neverIndexedBytes(name, metadata[name] as string);
  return bytes;
}

/** Writes the fields that differ from call to call: the timeout and the metadata, which may contain a token. */
export function writeCallFields(bytes: Uint8Array, at: number, timeout: string, metadata: Metadata | undefined): void {
  let end = timeout === '' ? at : writeNeverIndexed(bytes, at, TIMEOUT_HEADER, timeout);
  for (const name in metadata) end = writeNeverIndexed(bytes, end, name, metadata[name] as string);
}

/** Returns the value of `grpc-timeout`, rounded up, or an empty string for a call without a deadline. */
export function grpcTimeout(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return '';
  for (const [unit, unitMs] of TIMEOUT_UNITS) {
    const amount = Math.max(0, Math.ceil(ms / unitMs));
    if (amount <= MAX_TIMEOUT) return `${amount}${unit}`;
  }
  return '';
}

function listBytesOf(fields: readonly HeaderField[]): number {
  return fields.reduce((sum, field) => sum + entryBytes(field), 0);
}
