/** By how much the second grows with the first, by least squares. */
export function slopeOf(points: readonly (readonly [number, number])[]): {
  readonly perUnit: number;
  readonly standardError: number;
} {
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [meanX, meanY] = [mean(points.map(([x]) => x)), mean(points.map(([, y]) => y))];
  const spread = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
  const perUnit = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0) / spread;
  const residuals = points.reduce((sum, [x, y]) => sum + (y - meanY - perUnit * (x - meanX)) ** 2, 0);
  return { perUnit, standardError: Math.sqrt(residuals / Math.max(1, points.length - 2) / spread) };
}
