export { type RetryPolicy, retryPolicy } from './retry-policy.js';
export {
  type CallStats,
  collectStats,
  type ErrorCounts,
  type LatencyStats,
  type Stats,
  type StatsSnapshot,
  type StreamStats,
} from './stats.js';
