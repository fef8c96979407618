export { acquire, type QueueContender, sharedContender, tryAcquire, tryGate, uniqueContender } from './acquire.js';
export { Election, type Leadership, observe } from './election.js';
export { Ending } from './ending.js';
export { type Branch, branchOf, checkGuardedCount, type Operations, onlyNested } from './guarded-request.js';
export { type Applied, type GuardedWrite, Guards } from './guards.js';
export { Held, hold, RELEASE_OPTIONS, RELEASE_TIMEOUT_MS, type ReleaseOptions } from './held.js';
export { checkNameOutside, helperPrefix, withHelperKeys } from './helper-keys.js';
export { type Contender, inspectLock, type LockState } from './inspect-lock.js';
export { type LeadOptions, lead, type Term } from './lead.js';
export { checkName, keyGone, leaveQueue, lockLost, undoPut, uniqueKey, watchOwnKey } from './lock-queue.js';
export { Mutex, type MutexOptions, tryWithLock, type WithLockOptions, withLock, withLocks } from './mutex.js';
export { type Owner, type ReentrantHeld, ReentrantMutex } from './reentrant-mutex.js';
export { RWMutex } from './rw-mutex.js';
export { type Gap, RegisteredKey, SelfHealingSession } from './self-healing-session.js';
export { Semaphore } from './semaphore.js';
export {
  checkSession,
  checkSessionOf,
  DEFAULT_TTL_S,
  LEASE_OPTIONS,
  Session,
  type SessionOptions,
} from './session.js';
export {
  cleanedUp,
  isWatchInterrupted,
  type LockOptions,
  REWATCH_MS,
  setOutcome,
  untilAnswered,
  untilDone,
  untilSpace,
  WAIT_OPTIONS,
  type Waiting,
  type WaitLimit,
  type WaitOptions,
  waitLimit,
  watchUntil,
  withinLimit,
} from './waiting.js';
export {
  AGAIN,
  isSessionOver,
  sessionAfterSession,
  untilClosed,
  type WithSessionsOptions,
  withSessions,
} from './with-sessions.js';
