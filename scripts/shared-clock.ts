/** The time in milliseconds of a clock that all processes on a machine share. The clock also runs while a process is paused. */
export function sharedClockMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
}
