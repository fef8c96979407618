// What the workers and their director agree on.

export const LOCK = 'jobs/nightly';
export const LEDGER = 'etcdwire-demo/ledger/';

/** What a worker writes under the lock. */
export interface LedgerEntry {
  readonly worker: string;
  /** Fencing token, a bigint as text. */
  readonly token: string;
  readonly entry: number;
}

/** What a worker tells on its standard output, a line of JSON each. */
export type WorkerEvent =
  | { readonly type: 'holds'; readonly token: string }
  | { readonly type: 'wrote'; readonly entry: number }
  | { readonly type: 'released' }
  | { readonly type: 'lost'; readonly why: string }
  | { readonly type: 'refused'; readonly revision: string }
  | { readonly type: 'wrote stale'; readonly revision: string };
