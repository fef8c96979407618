/// <reference path="./base/globals.ts" preserve="true" />

/**
 * Locks, elections, queues, barriers, rate limiters, sessions, and software transactional memory (`stm`). Locks and
 * elections are fair and have fencing tokens. `Mutex` and `Election` use the same keys as Go's `concurrency` package.
 *
 * @module etcdwire/concurrency
 */
export {
  Barrier,
  type DeadJob,
  DoubleBarrier,
  type EnqueueOptions,
  type Isolation,
  Job,
  PriorityQueue,
  Queue,
  RateLimiter,
  type RateLimiterOptions,
  type RetryOptions,
  type StmOptions,
  type StmTransaction,
  stm,
  type WorkOptions,
  WorkQueue,
  type WorkQueueCounts,
  type WorkQueueOptions,
} from './extras/recipes/index.js';
export {
  type Contender,
  Election,
  type Gap,
  type Held,
  inspectLock,
  type Leadership,
  type LeadOptions,
  type LockOptions,
  type LockState,
  lead,
  Mutex,
  type MutexOptions,
  type Owner,
  observe,
  type ReentrantHeld,
  ReentrantMutex,
  type ReleaseOptions,
  RWMutex,
  SelfHealingSession,
  Semaphore,
  Session,
  type SessionOptions,
  type Term,
  tryWithLock,
  type WaitOptions,
  type WithLockOptions,
  type WithSessionsOptions,
  withLock,
  withLocks,
  withSessions,
} from './locks/index.js';
