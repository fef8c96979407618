export {
  type ActionLast,
  actionLast,
  can,
  checkBoolean,
  checkCan,
  checkChoice,
  checkCount,
  checkDelay,
  checkedLater,
  checkedLaterAll,
  checkFields,
  checkFunction,
  checkGivenOptions,
  checkInt64,
  checkList,
  checkMs,
  checkName,
  checkOptions,
  checkPositive,
  checkPositiveCount,
  checkSignal,
  checkText,
  checkUint64,
  isPlain,
  KEYS_HINTS,
  oneOf,
  type SignalOption,
  show,
} from './arguments.js';
export { BatchItemIterator, once } from './async.js';
export {
  type BytesLike,
  compareBytes,
  concatBytes,
  copyOf,
  describeType,
  hexOf,
  idOf,
  isBytes,
  isWellFormed,
  LineSplitter,
  NO_BYTES,
  ownBytes,
  plain,
  randomId,
  textOf,
  toBase64,
  toBytes,
  validTextOf,
} from './bytes.js';
export { Deadlines, type Expiring } from './deadlines.js';
export { environment, replaceEnvironment } from './environment.js';
export {
  amended,
  type ClientReason,
  callTimedOut,
  canceled,
  changesNothing,
  clientClosed,
  type ErrorContext,
  EtcdError,
  type EtcdErrorDetails,
  explained,
  type Failures,
  invalidInput,
  missingInput,
  noteFailure,
  type Outcome,
  type Reason,
  readError,
  timedOut,
  withCallers,
  withCallSite,
  withoutFrames,
} from './etcd-error.js';
export { iterate } from './iteration.js';
export {
  type ClientEvent,
  ClientEvents,
  causeOf,
  checkLogger,
  type LogDetails,
  type Logger,
  type ObjectFirstLogger,
  objectFirst,
  type WaitCause,
} from './log.js';
export {
  escapeControls,
  INSPECT,
  type InspectArguments,
  inspected,
  messageOf,
  Printable,
  printable,
} from './printed.js';
export { ProcessKeeper } from './process-keeper.js';
export { AsyncQueue, Fifo, UniqueQueue } from './queues.js';
export { provesNoEffect } from './refusals.js';
export { CheckedSignal, checkedSignalOf, onAbort, orAborted } from './signals.js';
export { lowerBound, SortedList } from './sorted-list.js';
export {
  SERVER_ERRORS,
  type ServerReason,
  STATUS_CODES,
  type StatusCode,
  statusCode,
  statusOfReason,
} from './status.js';
export { errorFromStatus, errorFromText, isInEveryEtcd } from './status-error.js';
export {
  after,
  at,
  backoffMs,
  doublingMs,
  eventLoopTurn,
  monotonicMs,
  pause,
  pauseUntil,
  settledWithin,
  untilSoonAfter,
} from './timers.js';
