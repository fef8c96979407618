export { type RetryPolicy, retryPolicy } from './retry-policy.js';
