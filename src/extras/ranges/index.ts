export {
  CachedKeyRange,
  type CachedRange,
  type CachedRangeState,
  cachedRangeOf,
  type RangeVersion,
  versionOf,
} from './cached-range.js';
export { type ChangesOptions, isSameState, type RangeChange } from './changes.js';
export { type Mirror, type MirrorMessage, type MirrorOptions, mirrorOf, RangeMirror } from './mirror.js';
export { decodeCopy, encodeCopy, type RangeCopy } from './range-copy.js';
export { RangeFold } from './range-fold.js';
export { RevisionWaits } from './revision-waits.js';
