import type { TcpAddress, WireFrame } from '../inspect/index.js';

/** A connection between a client and a member. */
export interface ObservedConnection {
  /** The number of the connection, counted from 1. */
  readonly connection: number;
  readonly client: TcpAddress;
  readonly server: TcpAddress;
  readonly endpoint: string;
  /** The common name in the certificate of the client. Undefined if the client has shown none. */
  readonly certificateName: string | undefined;
  readonly atMs: number;
}

/**
 * Receives what happens on connections, in order. All times are milliseconds: of a proxy on the monotonic clock, and of
 * a capture since 1970.
 */
export interface Traffic {
  opened?(connection: ObservedConnection): void;
  frame(frame: WireFrame): void;
  /** The proxy has read a piece of bytes. The frames since the piece before were in this piece. */
  pieceEnded?(): void;
  closed?(connection: number, atMs: number): void;
}

/** Passes the traffic to each of them, in their order. */
export function toEach(all: readonly (Traffic | undefined)[]): Required<Traffic> {
  return {
    opened: (connection) => {
      for (const each of all) each?.opened?.(connection);
    },
    frame: (frame) => {
      for (const each of all) each?.frame(frame);
    },
    pieceEnded: () => {
      for (const each of all) each?.pieceEnded?.();
    },
    closed: (connection, atMs) => {
      for (const each of all) each?.closed?.(connection, atMs);
    },
  };
}

export function addressText({ host, port }: TcpAddress): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
