export { retriedTxn, retriedWrites } from './retried-writes.js';
