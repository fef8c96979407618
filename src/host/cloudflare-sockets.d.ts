/**
 * Types for the part of Cloudflare's TCP sockets API that this package uses:
 * https://developers.cloudflare.com/workers/runtime-apis/tcp-sockets/
 */
declare module 'cloudflare:sockets' {
  interface Socket {
    readonly opened: Promise<unknown>;
    readonly readable: ReadableStream<Uint8Array>;
    readonly writable: WritableStream<Uint8Array>;
    close(): Promise<void>;
  }

  export function connect(
    address: { readonly hostname: string; readonly port: number },
    options: { readonly secureTransport: 'on' | 'off'; readonly allowHalfOpen: boolean },
  ): Socket;
}
