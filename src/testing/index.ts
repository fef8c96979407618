export { type Claim, checkLock, type LockRule } from './check-lock.js';
export { checkPuts, type PutCall, type PutRule } from './check-puts.js';
export { checkRegister, type RegisterCall, type RegisterResult } from './check-register.js';
export { checkWatch, type SeenEvent, type WatchRule } from './check-watch.js';
export { GuardedResource } from './guarded-resource.js';
export { History, type Operation } from './history.js';
export type { Violation } from './violation.js';
