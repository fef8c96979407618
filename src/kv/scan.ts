import { isEndpointFailure, isTooLarge } from '../channel/retry.js';
import { isTokenRefused } from '../channel/token-source.js';
import { EtcdError } from '../errors/etcd-error.js';
import { compareBytes, concatBytes } from '../runtime/bytes.js';
import { onAbort } from '../runtime/signals.js';
import { type Keys, resolveKeys } from './key-range.js';
import type { KeyValue } from './key-value.js';
import type { PackedKeyValues, RangePage } from './range-page.js';
import type { RangeOptions } from './requests.js';

/** Little enough whatever the values weigh; small ranges are done with it. */
const FIRST_PAGE_KEYS = 32;
const MAX_PAGE_KEYS = 40_000;
/** What a page should weigh: large enough to hide the round trip, small enough to hold. */
const PAGE_BYTES = 4_194_304;

const NUL = new Uint8Array([0]);

/** Some keys of a range, and the revision they are of. */
export interface ScanPage {
  readonly revision: bigint;
  readonly kvs: readonly KeyValue[];
}

/** The same; a page as it came has not been decoded yet. */
export interface PackedPage {
  readonly revision: bigint;
  readonly kvs: PackedKeyValues | readonly KeyValue[];
}

export interface ScanSource {
  /** One page, read linearizably where the options do not say otherwise. */
  page(keys: Keys, options: RangeOptions & { readonly signal: AbortSignal }): Promise<RangePage>;
  /** All the rest in chunks (`RangeStream`, etcd 3.7), or undefined where that is not to be had. */
  stream(keys: Keys, options: RangeOptions): AsyncIterable<readonly KeyValue[]> | undefined;
  /** The server has no such call. */
  cannotStream(): void;
  /** The longest response taken, in bytes. */
  readonly maxReceiveBytes: number;
}

/**
 * Reads a range in ascending order, all at the revision of the first page: by one stream where the server has it, page
 * by page otherwise. A page is asked for before the one ahead of it is decoded. A stream that breaks is gone on with from
 * its last key.
 */
export async function* scanPages(
  keys: Keys,
  options: RangeOptions & { readonly signal?: AbortSignal | undefined },
  source: ScanSource,
): AsyncGenerator<PackedPage, void> {
  const { rangeEnd } = resolveKeys(keys, 'keys');
  const pageBytes = Math.min(PAGE_BYTES, source.maxReceiveBytes / 2);
  let rest: Keys | undefined = keys;
  let revision = options.revision ?? 0n;
  let limit = FIRST_PAGE_KEYS;
  const over = new AbortController();
  const { signal } = options;
  const abort = (): void => over.abort(signal?.reason);
  const offAbort = signal === undefined ? () => {} : onAbort(signal, abort);
  if (signal?.aborted) abort();
  const ask = (from: Keys): Promise<RangePage> => {
    const page = source.page(from, { ...options, revision, limit, signal: over.signal });
    // Heard of when it is waited for, if that ever happens.
    page.catch(() => {});
    return page;
  };
  let ahead: Promise<RangePage> | undefined;
  try {
    while (rest !== undefined) {
      let page: RangePage;
      try {
        page = await (ahead ?? ask(rest));
      } catch (error) {
        if (!(error instanceof EtcdError && isTooLarge(error)) || limit === 1) throw error;
        limit = Math.max(1, Math.floor(limit / 4));
        ahead = undefined;
        continue;
      }
      if (revision === 0n) revision = page.header?.revision ?? 0n;
      const last = page.kvs.last();
      if (last !== undefined) rest = keysAfter(last.key, rangeEnd);
      const done = !page.more || last === undefined || rest === undefined;
      limit = limitFor(page.kvs, pageBytes);
      const chunks = done ? undefined : source.stream(rest as Keys, { ...options, revision });
      ahead = done || chunks !== undefined ? undefined : ask(rest as Keys);
      yield { revision, kvs: page.kvs };
      if (done) return;
      if (chunks === undefined) continue;
      try {
        for await (const kvs of chunks) {
          rest = keysAfter((kvs.at(-1) as KeyValue).key, rangeEnd);
          yield { revision, kvs };
        }
        return;
      } catch (error) {
        if (isUnimplemented(error)) source.cannotStream();
        // Else the next page deals with the trouble: by another endpoint, or a new token.
        else if (!isForPages(error)) throw error;
      }
    }
  } finally {
    offAbort();
    over.abort();
  }
}

/** The keys after this one, up to the end, if there can be any. */
function keysAfter(key: Uint8Array, rangeEnd: Uint8Array): Keys | undefined {
  const start = concatBytes(key, NUL);
  const openEnded = compareBytes(rangeEnd, NUL) === 0;
  return openEnded || compareBytes(start, rangeEnd) < 0 ? { start, end: rangeEnd } : undefined;
}

/** As many keys as should weigh `pageBytes`, if they go on like these. */
function limitFor(kvs: PackedKeyValues, pageBytes: number): number {
  return Math.max(1, Math.min(MAX_PAGE_KEYS, Math.floor((pageBytes * kvs.length) / Math.max(1, kvs.bytes))));
}

function isForPages(error: unknown): boolean {
  return error instanceof EtcdError && (isTooLarge(error) || isEndpointFailure(error) || isTokenRefused(error));
}

function isUnimplemented(error: unknown): boolean {
  return error instanceof EtcdError && error.code === 'Unimplemented';
}
