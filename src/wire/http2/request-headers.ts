import type { Endpoint } from '../../host/index.js';
import type { Metadata } from '../transport.js';
import {
  entryBytes,
  type FixedFields,
  fixedFields,
  type HeaderField,
  neverIndexedBytes,
  writeNeverIndexed,
} from './hpack.js';

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

/**
 * Metadata that many calls have in common and that is no secret. The encoder adds it to the peer's dynamic table, so
 * that it takes one octet.
 */
const SHARED: HeaderField = ['hasleader', 'true'];

/** The headers of requests. https://grpc.github.io/grpc/core/md_doc__p_r_o_t_o_c_o_l-_h_t_t_p2.html */
export class RequestHeaders {
  readonly #endpoint: Endpoint;
  /** By the path of the method, first the fields without `SHARED`, then those with it. */
  readonly #fixed = [new Map<string, FixedFields>(), new Map<string, FixedFields>()] as const;

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint;
  }

  /**
   * Returns the fields that are the same for every call of the method: all except the timeout and the metadata other
   * than `SHARED`.
   */
  fixed(path: string, metadata: Metadata | undefined): FixedFields {
    const known = this.#fixed[isShared(SHARED[0], metadata) ? 1 : 0];
    let fixed = known.get(path);
    if (fixed === undefined) {
      fixed = fixedFields(this.#fields(path, metadata));
      known.set(path, fixed);
    }
    return fixed;
  }

  #fields(path: string, metadata: Metadata | undefined): readonly HeaderField[] {
    const { address, tls, url } = this.#endpoint;
    return [
      [':method', 'POST'],
      [':scheme', tls ? 'https' : 'http'],
      [':path', path],
      [':authority', 'path' in address ? 'localhost' : url.replace(/^https?:\/\//, '')],
      ['te', 'trailers'],
      ['content-type', 'application/grpc'],
      ['user-agent', 'etcdwire'],
      ...(isShared(SHARED[0], metadata) ? [SHARED] : []),
    ];
  }
}

function isShared(name: string, metadata: Metadata | undefined): boolean {
  return name === SHARED[0] && metadata?.[name] === SHARED[1];
}

/** Returns the size of the fields that `writeCallFields` writes, as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
export function callListBytes(timeout: string, metadata: Metadata | undefined): number {
  let bytes = timeout === '' ? 0 : entryBytes([TIMEOUT_HEADER, timeout]);
  for (const name in metadata) if (!isShared(name, metadata)) bytes += entryBytes([name, metadata[name] as string]);
  return bytes;
}

/** Returns the number of bytes that `writeCallFields` writes. */
export function callFieldsBytes(timeout: string, metadata: Metadata | undefined): number {
  let bytes = timeout === '' ? 0 : neverIndexedBytes(TIMEOUT_HEADER, timeout);
  for (const name in metadata)
    if (!isShared(name, metadata)) bytes += neverIndexedBytes(name, metadata[name] as string);
  return bytes;
}

/** Writes the fields that differ from call to call: the timeout and the metadata, which may contain a token. */
export function writeCallFields(bytes: Uint8Array, at: number, timeout: string, metadata: Metadata | undefined): void {
  let end = timeout === '' ? at : writeNeverIndexed(bytes, at, TIMEOUT_HEADER, timeout);
  for (const name in metadata)
    if (!isShared(name, metadata)) end = writeNeverIndexed(bytes, end, name, metadata[name] as string);
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
