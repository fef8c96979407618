import type { RangeOptions, Sort } from './requests.js';

// Go's range options as plain data: spread several into one, { ...withLastCreate(), ...withMaxCreateRev(rev) }.

/** The key created first. */
export function withFirstCreate(): RangeOptions {
  return top('create', 'ascend');
}

/** The key created last. */
export function withLastCreate(): RangeOptions {
  return top('create', 'descend');
}

/** The smallest key. */
export function withFirstKey(): RangeOptions {
  return top('key', 'ascend');
}

/** The largest key. */
export function withLastKey(): RangeOptions {
  return top('key', 'descend');
}

/** The key changed longest ago. */
export function withFirstRev(): RangeOptions {
  return top('mod', 'ascend');
}

/** The key changed last. */
export function withLastRev(): RangeOptions {
  return top('mod', 'descend');
}

/** Only keys created at or before this revision; 0n for no bound. */
export function withMaxCreateRev(maxCreateRevision: bigint): RangeOptions {
  return { maxCreateRevision };
}

/** Only keys created at or after this revision; 0n for no bound. */
export function withMinCreateRev(minCreateRevision: bigint): RangeOptions {
  return { minCreateRevision };
}

/** Only keys changed at or before this revision; 0n for no bound. */
export function withMaxModRev(maxModRevision: bigint): RangeOptions {
  return { maxModRevision };
}

/** Only keys changed at or after this revision; 0n for no bound. */
export function withMinModRev(minModRevision: bigint): RangeOptions {
  return { minModRevision };
}

/** The store as of this revision. */
export function withRev(revision: bigint): RangeOptions {
  return { revision };
}

/** At most this many keys. */
export function withLimit(limit: number | bigint): RangeOptions {
  return { limit };
}

/** By what the answer is ordered, and which way. */
export function withSort(by: Sort['by'], order: Sort['order']): RangeOptions {
  return { sort: { by, order } };
}

/** The member's own, perhaps stale, data. */
export function withSerializable(): RangeOptions {
  return { serializable: true };
}

/** No values. */
export function withKeysOnly(): RangeOptions {
  return { keysOnly: true };
}

/** No keys, only how many there are. */
export function withCountOnly(): RangeOptions {
  return { countOnly: true };
}

function top(by: Sort['by'], order: Sort['order']): RangeOptions {
  return { ...withSort(by, order), ...withLimit(1) };
}
