import type { HeaderField } from '../transport/http2/hpack/static-table.js';

/** One frame as it went over the wire, and what it says. */
export interface WireFrame {
  /** On the monotonic clock, in milliseconds. */
  readonly atMs: number;
  /** Connections are counted from 1. */
  readonly connection: number;
  /** URL. */
  readonly endpoint: string;
  readonly direction: 'sent' | 'received';
  /** 0 is the connection itself. */
  readonly streamId: number;
  /** Its type, by RFC 9113, section 6; or the preface of section 3.4, which is no frame. */
  readonly type: string;
  readonly flags: readonly string[];
  /** All of it, header included. Where there is a secret in it, those bytes are 0. */
  readonly bytes: Uint8Array;
  readonly detail: FrameDetail;
}

export type FrameDetail =
  | { readonly kind: 'settings'; readonly settings: readonly (readonly [name: string, value: number])[] }
  | { readonly kind: 'headers'; readonly fields: readonly HeaderField[] }
  | { readonly kind: 'data'; readonly messages: readonly WireMessage[] }
  | { readonly kind: 'windowUpdate'; readonly increment: number }
  | { readonly kind: 'ping'; readonly opaque: string }
  | { readonly kind: 'goAway'; readonly lastStreamId: number; readonly code: string; readonly debug: string }
  | { readonly kind: 'reset'; readonly code: string }
  | { readonly kind: 'other' };

/** A gRPC message that is whole with this frame. */
export interface WireMessage {
  /** gRPC path of the call, such as `/etcdserverpb.KV/Put`. */
  readonly method: string;
  /** Full name of its type. */
  readonly typeName: string;
  /** Without its prefix. Where there is a secret in it, those bytes are 0. */
  readonly bytes: Uint8Array;
}
