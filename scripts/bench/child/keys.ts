/** How many keys calls go round, so that the store does not grow by their number. */
const CALLED_KEYS = 128;

/** The keys of calls with values of one size. */
export function calledKeys(valueBytes: number): string[] {
  return Array.from({ length: CALLED_KEYS }, (_, index) => `bench/called/${valueBytes}/${index}`);
}

/** The key of one of many watchers. */
export function watchedKey(prefix: string, index: number): string {
  return `${prefix}${index}`;
}
