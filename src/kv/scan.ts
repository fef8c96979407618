import { compareBytes, concatBytes } from '../bytes.js';
import { isEndpointFailure } from '../channel/retry.js';
import { isTokenRefused } from '../channel/token-source.js';
import { EtcdError } from '../errors.js';
import { type Keys, resolveKeys } from './key-range.js';
import type { KeyValue } from './key-value.js';
import type { RangeOptions } from './requests.js';
import type { RangeResult, WithHeader } from './results.js';

/** Little enough whatever the values weigh; small ranges are done with it. */
const FIRST_PAGE_KEYS = 32;
const MAX_PAGE_KEYS = 10_000;
/** What a page should weigh: large enough to hide the round trip, small enough to hold. */
const PAGE_BYTES = 1_048_576;

const NUL = new Uint8Array([0]);

/** Some keys of a range, and the revision they are of. */
export interface ScanPage {
  readonly revision: bigint;
  readonly kvs: readonly KeyValue[];
}

export interface ScanSource {
  /** One page, read linearizably where the options do not say otherwise. */
  page(keys: Keys, options: RangeOptions): Promise<WithHeader<RangeResult>>;
  /** All the rest in chunks (`RangeStream`, etcd 3.7), or undefined where that is not to be had. */
  stream(keys: Keys, options: RangeOptions): AsyncIterable<readonly KeyValue[]> | undefined;
  /** The server has no such call. */
  cannotStream(): void;
  /** The longest response taken, in bytes. */
  readonly maxReceiveBytes: number;
}

/**
 * Reads a range in ascending order, all at the revision of the first page: by one stream where the server has it, page
 * by page otherwise. A stream that breaks is gone on with from its last key.
 */
export async function* scanPages(
  keys: Keys,
  options: RangeOptions,
  source: ScanSource,
): AsyncGenerator<ScanPage, void> {
  const { rangeEnd } = resolveKeys(keys, 'keys');
  const pageBytes = Math.min(PAGE_BYTES, source.maxReceiveBytes / 2);
  let rest: Keys | undefined = keys;
  let revision = options.revision ?? 0n;
  let limit = FIRST_PAGE_KEYS;
  const passed = (kvs: readonly KeyValue[]): ScanPage => {
    const last = kvs.at(-1);
    if (last !== undefined) rest = keysAfter(last.key, rangeEnd);
    return { revision, kvs };
  };
  while (rest !== undefined) {
    let page: WithHeader<RangeResult>;
    try {
      page = await source.page(rest, { ...options, revision, limit });
    } catch (error) {
      if (!isTooLarge(error) || limit === 1) throw error;
      limit = Math.max(1, Math.floor(limit / 4));
      continue;
    }
    if (revision === 0n) revision = page.header.revision;
    yield passed(page.kvs);
    if (!page.more || page.kvs.length === 0) return;
    limit = limitFor(page.kvs, pageBytes);
    try {
      const chunks = source.stream(rest, { ...options, revision });
      if (chunks === undefined) continue;
      for await (const kvs of chunks) yield passed(kvs);
      return;
    } catch (error) {
      if (isUnimplemented(error)) source.cannotStream();
      // Else the next page deals with the trouble: by another endpoint, or a new token.
      else if (!isTooLarge(error) && !isForPages(error)) throw error;
    }
  }
}

/** The keys after this one, up to the end, if there can be any. */
function keysAfter(key: Uint8Array, rangeEnd: Uint8Array): Keys | undefined {
  const start = concatBytes(key, NUL);
  const openEnded = compareBytes(rangeEnd, NUL) === 0;
  return openEnded || compareBytes(start, rangeEnd) < 0 ? { start, end: rangeEnd } : undefined;
}

/** As many keys as should weigh `pageBytes`, if they go on like these. */
function limitFor(kvs: readonly KeyValue[], pageBytes: number): number {
  const bytes = kvs.reduce((sum, kv) => sum + kv.key.length + kv.value.length, 0);
  return Math.max(1, Math.min(MAX_PAGE_KEYS, Math.floor((pageBytes * kvs.length) / Math.max(1, bytes))));
}

/** This side's own limit on what it takes. */
function isTooLarge(error: unknown): boolean {
  return error instanceof EtcdError && error.code === 'ResourceExhausted' && error.reason === 'Other';
}

function isForPages(error: unknown): boolean {
  return error instanceof EtcdError && (isEndpointFailure(error) || isTokenRefused(error));
}

function isUnimplemented(error: unknown): boolean {
  return error instanceof EtcdError && error.code === 'Unimplemented';
}
