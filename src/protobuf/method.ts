import type { Codec } from './codec.js';

/** Whose side of a call is a stream of messages. */
export type MethodKind = 'unary' | 'server-streaming' | 'bidi-streaming';

/** One RPC of one service. */
export interface Method<Request, Response, Kind extends MethodKind = MethodKind> {
  /** gRPC's `:path`. */
  readonly path: `/${string}/${string}`;
  readonly kind: Kind;
  readonly request: Codec<Request>;
  readonly response: Codec<Response>;
  /**
   * Twice does what once does, for all that a client can see: it may be sent again after a failure that leaves open
   * whether it was processed.
   */
  readonly repeatable: boolean;
}
