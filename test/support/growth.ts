/** Ten times as many may cost so many times as much: ten, and the noise of a measurement. Quadratic work costs 100 times. */
export const MAX_GROWTH = 40;

/** How many times as much CPU time the work takes for ten times as many; `prepare` gives the work. */
export function growth(count: number, prepare: (count: number) => () => void): number {
  const [few, many] = [count, 10 * count].map((each) => {
    const times = Array.from({ length: 5 }, () => {
      const work = prepare(each);
      const before = process.cpuUsage();
      work();
      const { user, system } = process.cpuUsage(before);
      return user + system;
    });
    return Math.min(...times);
  }) as [number, number];
  // Less than this is not measured well.
  return many / Math.max(few, 1_000);
}
