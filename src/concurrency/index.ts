/**
 * Locks, elections, queues and barriers that stand on a session: fair, fenced, on the keys of Go's `concurrency` package.
 *
 * @module etcdwire/concurrency
 */
export { Barrier } from './barrier.js';
export { DoubleBarrier } from './double-barrier.js';
export { Election, type Leadership } from './election.js';
export type { Held, UnlockOptions } from './held.js';
export { Mutex } from './mutex.js';
export { PriorityQueue } from './priority-queue.js';
export { Queue } from './queue.js';
export { type Owner, type ReentrantHeld, ReentrantMutex } from './reentrant-mutex.js';
export { RWMutex } from './rw-mutex.js';
export { type Gap, SelfHealingSession } from './self-healing-session.js';
export { Semaphore } from './semaphore.js';
export { Session, type SessionOptions } from './session.js';
export { type StmOptions, stm } from './stm.js';
export type { Isolation, StmTransaction } from './stm-transaction.js';
export type { WaitOptions } from './wait-limit.js';
export { type WithLockOptions, withLock } from './with-lock.js';
