/** Blocks the event loop for `ms` milliseconds, as a long computation does. */
export function blockEventLoop(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}
