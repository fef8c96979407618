/// <reference path="../runtime/globals.ts" preserve="true" />

/**
 * Locks, elections, queues, barriers, rate limiters, sessions, and software transactional memory (`stm`). Locks and
 * elections are fair and have fencing tokens. `Mutex` and `Election` use the same keys as Go's `concurrency` package.
 *
 * @module etcdwire/concurrency
 */
export { Barrier } from './barrier.js';
export { DoubleBarrier } from './double-barrier.js';
export { Election, type Leadership, observe } from './election.js';
export type { Held, ReleaseOptions } from './held.js';
export { type Contender, inspectLock, type LockState } from './inspect-lock.js';
export { Job, type RetryOptions } from './job.js';
export { type LeadOptions, lead, type Term } from './lead.js';
export { Mutex, type MutexOptions, tryWithLock, type WithLockOptions, withLock, withLocks } from './mutex.js';
export { PriorityQueue, Queue } from './queue.js';
export { RateLimiter, type RateLimiterOptions } from './rate-limiter.js';
export { type Owner, type ReentrantHeld, ReentrantMutex } from './reentrant-mutex.js';
export { RWMutex } from './rw-mutex.js';
export { type Gap, SelfHealingSession } from './self-healing-session.js';
export { Semaphore } from './semaphore.js';
export { Session, type SessionOptions } from './session.js';
export { type Isolation, type StmOptions, type StmTransaction, stm } from './stm.js';
export type { LockOptions, WaitOptions } from './waiting.js';
export { type WithSessionsOptions, withSessions } from './with-sessions.js';
export {
  type DeadJob,
  type EnqueueOptions,
  type WorkOptions,
  WorkQueue,
  type WorkQueueCounts,
  type WorkQueueOptions,
} from './work-queue.js';
