/** Of the clock that all processes of a machine share, and that no pause stops. */
export function sharedClockMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
}
