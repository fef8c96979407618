/// <reference path="./base/globals.ts" preserve="true" />

/**
 * Sessions, locks and elections. Locks and elections are fair and have fencing tokens. `Mutex` and `Election` use the same
 * keys as Go's `concurrency` package.
 *
 * @module etcdwire/locks
 */
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
