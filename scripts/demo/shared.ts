import { grpcJs } from '../../src/grpc-js.js';
import { Client } from '../../src/index.js';

// The names and types that the demo and its workers share.

export const LOCK = 'jobs/nightly';
export const LEDGER = 'etcdwire-demo/ledger/';

/** An entry that a worker writes to the ledger while the worker holds the lock. */
export interface LedgerEntry {
  readonly worker: string;
  /** The fencing token, a bigint as text. */
  readonly token: string;
  readonly entry: number;
}

/** An event that a worker reports. The worker writes each event to stdout as a line of JSON. */
export type WorkerEvent =
  | { readonly type: 'holds'; readonly token: string }
  | { readonly type: 'wrote'; readonly entry: number }
  | { readonly type: 'released' }
  | { readonly type: 'lost'; readonly why: string }
  | { readonly type: 'refused'; readonly revision: string }
  | { readonly type: 'wrote stale'; readonly revision: string };

/** Opens a client over the transport in `ETCDWIRE_TRANSPORT`: `http2`, which is the default, or `grpc-js`. */
export function openClient(endpoints: readonly string[]): Client {
  const name = process.env.ETCDWIRE_TRANSPORT ?? 'http2';
  if (name !== 'http2' && name !== 'grpc-js')
    throw new Error(`ETCDWIRE_TRANSPORT: got "${name}"; allowed: http2, grpc-js`);
  return new Client({ endpoints, transport: name === 'grpc-js' ? grpcJs() : undefined });
}
