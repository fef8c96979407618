import type { Check } from './check.js';
import { PREFACE } from './checks/01-preface.js';
import { FRAMES } from './checks/02-frames.js';
import { HEADERS } from './checks/03-headers.js';
import { PROTOBUF } from './checks/04-protobuf.js';
import { CALL } from './checks/05-call.js';
import { STATUS } from './checks/06-status.js';
import { WATCH } from './checks/07-watch.js';
import { LEASE } from './checks/08-lease.js';
import { QUEUE } from './checks/09-queue.js';
import { LOCK } from './checks/10-lock.js';
import { LIBRARY } from './checks/11-etcdwire.js';
import { BREAK_IT } from './checks/12-break-it.js';

// What the programs of the course must do, and what the answers to its exercises must do.

/** The checks by the number of the chapter. */
export const CHECKS: Readonly<Record<number, readonly Check[]>> = {
  1: PREFACE,
  2: FRAMES,
  3: HEADERS,
  4: PROTOBUF,
  5: CALL,
  6: STATUS,
  7: WATCH,
  8: LEASE,
  9: QUEUE,
  10: LOCK,
  11: LIBRARY,
  12: BREAK_IT,
};
