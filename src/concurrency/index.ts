export type { Held } from './held.js';
export { Mutex } from './mutex.js';
export { Session, type SessionOptions } from './session.js';
export type { WaitOptions } from './wait-limit.js';
export { type WithLockOptions, withLock } from './with-lock.js';
