/**
 * Measures the longest time for which the event loop is blocked, with a timer that fires every `tickMs`. Returns a
 * function that returns this time in milliseconds, and a function that ends the measurement.
 */
export function measureLongestBlock(tickMs: number): { readonly longestMs: () => number; readonly stop: () => void } {
  let longestMs = 0;
  let tickedAt = performance.now();
  const ticking = setInterval(() => {
    const now = performance.now();
    longestMs = Math.max(longestMs, now - tickedAt - tickMs);
    tickedAt = now;
  }, tickMs);
  return { longestMs: () => longestMs, stop: () => clearInterval(ticking) };
}
