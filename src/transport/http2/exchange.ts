import type { EtcdError } from '../../errors/etcd-error.js';
import type { Expiring } from './deadlines.js';
import type { Http2Stream } from './stream.js';

/** A connection that ends with GOAWAY again and again is the endpoint's trouble, and no longer this call's. */
export const MAX_MOVES = 3;

/** A call under way, as its transport sees it. */
export interface Exchange extends Expiring {
  /** What to open on the connection; undefined where the call has ended meanwhile. */
  beginStream(): Http2Stream | undefined;
  /** The stream was handed to a connection: what there is to send can be given to it. */
  begun(): void;
  /** Ends the call, of which nothing was sent. */
  notConnected(error: EtcdError): void;
  /** The client was closed. */
  close(): void;
}

/** What carries an exchange. */
export interface ExchangeOwner {
  readonly endpoint: string;
  readonly maxReceiveBytes: number;
  /** Opens the exchange's stream on a connection, which may have to be made first. */
  start(exchange: Exchange): void;
  ended(exchange: Exchange): void;
}
