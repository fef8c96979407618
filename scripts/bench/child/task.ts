import type { Sample } from '../sample.js';
import type { Limits } from './calls.js';
import type { HandOffs } from './hand-offs.js';

/** One kind of call, made over and over. */
export type Work =
  | { readonly kind: 'get' | 'put' | 'txn'; readonly valueBytes: number }
  | { readonly kind: 'scan'; readonly prefix: string; readonly keys: number }
  | { readonly kind: 'catch-up'; readonly prefix: string; readonly startRevision: bigint; readonly events: number }
  | { readonly kind: 'lease' | 'lock' };

/** What a client's process is told to do. */
export type Task =
  | { readonly kind: 'calls'; readonly work: Work; readonly limits: Limits }
  /** One watcher of all keys under the prefix, or one for each of them. */
  | { readonly kind: 'open-watchers'; readonly prefix: string; readonly watchers: number }
  | { readonly kind: 'close-watchers' }
  /** Measures from here on what the watchers see. */
  | { readonly kind: 'expect-events'; readonly events: number }
  /** Answered when as many events as expected have come. */
  | { readonly kind: 'await-events' }
  /** Makes events for watchers in another process. */
  | { readonly kind: 'write-events'; readonly prefix: string; readonly events: number; readonly keys: number }
  | { readonly kind: 'footprint' }
  | { readonly kind: 'hand-offs'; readonly handOffs: HandOffs };

/** What a client's process answers to each task. */
export type Answer = { readonly sample: Sample } | { readonly error: string };
