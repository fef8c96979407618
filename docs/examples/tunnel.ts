import type { Http2Options } from 'etcdwire';

/** The number of unsent bytes at which the client has to wait. */
const LONG_BACKLOG_BYTES = 65_536;

/** The option `connect` of `http2` over a WebSocket to `url`, where bridge.ts runs. */
export function tunnel(url: string): Http2Options['connect'] {
  if (typeof WebSocket === 'undefined') throw new Error('this runtime has no WebSocket');
  return (_, { signal }) =>
    new Promise((resolve, reject) => {
      const socket = new WebSocket(url);
      socket.binaryType = 'arraybuffer';
      const close = (): void => socket.close();
      signal.addEventListener('abort', close);
      const failing = (controller: { error(reason: Error): void }): void =>
        socket.addEventListener('close', ({ code, reason }) => {
          controller.error(new Error(`the WebSocket to ${url} was closed with code ${code} ${reason}`.trim()));
        });
      const readable = new ReadableStream<Uint8Array>({
        start(controller) {
          failing(controller);
          socket.addEventListener('message', ({ data }) => {
            if (socket.readyState === socket.OPEN) controller.enqueue(new Uint8Array(data as ArrayBuffer));
          });
        },
        cancel: close,
      });
      const writable = new WritableStream<Uint8Array>({
        start: failing,
        async write(bytes) {
          socket.send(bytes as Uint8Array & { buffer: ArrayBuffer });
          while (socket.readyState === socket.OPEN && socket.bufferedAmount > LONG_BACKLOG_BYTES)
            await new Promise((sent) => setTimeout(sent, 5));
        },
        close,
        abort: close,
      });
      failing({ error: reject });
      socket.addEventListener('error', () => {}); // The event `close` follows.
      socket.addEventListener('open', () => resolve({ readable, writable }));
    });
}
