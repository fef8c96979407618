import { concatBytes } from '../bytes.js';
import { type Keys, resolveKeys } from './key-range.js';
import type { KeyValue } from './key-value.js';
import type { RangeOptions } from './requests.js';
import type { RangeResult, WithHeader } from './results.js';

const FIRST_PAGE_KEYS = 100;
const MAX_PAGE_KEYS = 10_000;
/** What a page should weigh: large enough to hide the round trip, small enough to hold. */
const PAGE_BYTES = 1_048_576;

const NUL = new Uint8Array([0]);

/** One page, read linearizably where the options do not say otherwise. */
type ReadPage = (keys: Keys, options: RangeOptions) => Promise<WithHeader<RangeResult>>;

/** Reads a range page by page, every page at the revision of the first. */
export async function* scanPages(keys: Keys, options: RangeOptions, read: ReadPage): AsyncGenerator<KeyValue, void> {
  const { rangeEnd, key } = resolveKeys(keys, 'keys');
  let next: Keys = keys;
  let revision = options.revision ?? 0n;
  let limit = FIRST_PAGE_KEYS;
  for (;;) {
    const page = await read(next, { ...options, revision, limit });
    yield* page.kvs;
    const last = page.kvs.at(-1);
    if (!page.more || last === undefined) return;
    if (revision === 0n) revision = page.header.revision;
    const bytes = page.kvs.reduce((sum, kv) => sum + kv.key.length + kv.value.length, 0);
    limit = Math.max(1, Math.min(MAX_PAGE_KEYS, Math.floor((PAGE_BYTES * page.kvs.length) / Math.max(1, bytes))));
    // The smallest key after the last one.
    const start = concatBytes(last.key, NUL);
    next = rangeEnd.length === 0 ? key : { start, end: rangeEnd };
  }
}
