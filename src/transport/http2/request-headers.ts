import type { Metadata } from '../transport.js';
import { entryBytes } from './hpack/dynamic-table.js';
import { HpackEncoder, neverIndexedBytes, writeNeverIndexed } from './hpack/encoder.js';
import type { HeaderField } from './hpack/static-table.js';

const TIMEOUT_HEADER = 'grpc-timeout';
/** gRPC allows eight digits of each unit. */
const MAX_TIMEOUT_DIGITS = 99_999_999;
/** gRPC's units of a timeout in milliseconds, finest first: milliseconds, seconds, minutes, hours. */
const TIMEOUT_UNITS: readonly (readonly [unit: string, ms: number])[] = [
  ['m', 1],
  ['S', 1_000],
  ['M', 60_000],
  ['H', 3_600_000],
];

interface Block {
  readonly version: number;
  readonly bytes: Uint8Array;
  /** As SETTINGS_MAX_HEADER_LIST_SIZE counts. */
  readonly listBytes: number;
}

/** The header blocks of requests, by method: https://grpc.github.io/grpc/core/md_doc__p_r_o_t_o_c_o_l-_h_t_t_p2.html */
export class RequestHeaders {
  readonly #encoder = new HpackEncoder();
  readonly #blocks = new Map<string, Block>();
  readonly #scheme: 'http' | 'https';
  readonly #authority: string;

  constructor(scheme: 'http' | 'https', authority: string) {
    this.#scheme = scheme;
    this.#authority = authority;
  }

  resizeTable(bytes: number): void {
    this.#encoder.resize(bytes);
  }

  /** What is the same for every call of the method. It must be sent: the peer's table goes with it. */
  block(path: string): Uint8Array {
    const known = this.#blocks.get(path);
    if (known !== undefined && known.version === this.#encoder.version) return known.bytes;
    const { version } = this.#encoder;
    const fields = this.#fields(path);
    const bytes = this.#encoder.encode(fields);
    if (version === this.#encoder.version) this.#blocks.set(path, { version, bytes, listBytes: listBytesOf(fields) });
    return bytes;
  }

  /** How large the list of fields is, as SETTINGS_MAX_HEADER_LIST_SIZE counts. */
  listBytes(path: string, timeout: string, metadata: Metadata | undefined): number {
    let bytes = this.#blocks.get(path)?.listBytes ?? listBytesOf(this.#fields(path));
    if (timeout !== '') bytes += entryBytes([TIMEOUT_HEADER, timeout]);
    for (const name in metadata) bytes += entryBytes([name, metadata[name] as string]);
    return bytes;
  }

  #fields(path: string): readonly HeaderField[] {
    return [
      [':method', 'POST'],
      [':scheme', this.#scheme],
      [':path', path],
      [':authority', this.#authority],
      ['te', 'trailers'],
      ['content-type', 'application/grpc'],
      ['user-agent', 'etcdwire'],
    ];
  }
}

/** Bytes that `writeCallFields` takes. */
export function callFieldsBytes(timeout: string, metadata: Metadata | undefined): number {
  let bytes = timeout === '' ? 0 : neverIndexedBytes(TIMEOUT_HEADER, timeout);
  for (const name in metadata) bytes += neverIndexedBytes(name, metadata[name] as string);
  return bytes;
}

/** What belongs to one call: its time limit and its metadata, a token among it. */
export function writeCallFields(
  bytes: Uint8Array,
  at: number,
  timeout: string,
  metadata: Metadata | undefined,
): number {
  let end = timeout === '' ? at : writeNeverIndexed(bytes, at, TIMEOUT_HEADER, timeout);
  for (const name in metadata) end = writeNeverIndexed(bytes, end, name, metadata[name] as string);
  return end;
}

/** The time limit as gRPC writes it, rounded up; empty for none. */
export function grpcTimeout(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return '';
  for (const [unit, unitMs] of TIMEOUT_UNITS) {
    const amount = Math.max(0, Math.ceil(ms / unitMs));
    if (amount <= MAX_TIMEOUT_DIGITS) return `${amount}${unit}`;
  }
  return '';
}

function listBytesOf(fields: readonly HeaderField[]): number {
  return fields.reduce((sum, field) => sum + entryBytes(field), 0);
}
