/**
 * Returns the time, in milliseconds, of a clock that all processes on a machine share. The clock keeps running while a
 * process is suspended.
 */
export function sharedClockMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
}
