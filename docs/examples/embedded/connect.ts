/// <reference path="./host.ts" />

import type { Http2Options } from 'etcdwire';
import { runTimers } from './polyfills.js';

// The option `connect` of `http2` over the sockets of the program. The client uses only some methods of web streams, so
// an engine does not need web streams.

interface OpenSocket {
  opened(): void;
  read(bytes: Uint8Array): void;
  drained(): void;
  closed(problem: string | undefined): void;
}

const sockets = new Map<number, OpenSocket>();

globalThis.hostEvents = {
  runTimers,
  opened: (id) => sockets.get(id)?.opened(),
  read: (id, bytes) => sockets.get(id)?.read(bytes),
  drained: (id) => sockets.get(id)?.drained(),
  closed(id, problem) {
    const socket = sockets.get(id);
    sockets.delete(id);
    socket?.closed(problem ?? undefined);
  },
};

/** Connects to an endpoint `http://host:port`. */
export const connect: Http2Options['connect'] = ({ address }, { signal }) =>
  new Promise((resolve, reject) => {
    signal.throwIfAborted();
    if ('path' in address) throw new Error('no sockets of files here; allowed: http://host:port');
    const id = host.connect(address.host, address.port);
    if (typeof id === 'string') throw new Error(id);
    const abort = async (): Promise<void> => {
      sockets.delete(id);
      host.abort(id);
      receiver.end();
      sender.settle();
    };
    const receiver = new Receiver();
    const sender = new Sender();
    const readable = { getReader: () => ({ read: () => receiver.next(), cancel: abort }), cancel: abort };
    const writer = {
      closed: sender.failed,
      write: (bytes: Uint8Array) => sender.sent(host.write(id, bytes)),
      close: () => sender.sent(host.close(id)),
      abort,
    };
    sockets.set(id, {
      opened: () => resolve({ readable, writable: { getWriter: () => writer, abort } }),
      read: (bytes) => receiver.add(bytes),
      drained: () => sender.settle(),
      closed(problem) {
        const error = problem === undefined ? undefined : new Error(problem);
        reject(error ?? new Error('the connection was closed'));
        receiver.end(error);
        sender.settle(error);
      },
    });
    signal.addEventListener('abort', () => {
      void abort();
      reject(signal.reason);
    });
  });

type Read = { readonly done: false; readonly value: Uint8Array } | { readonly done: true };

/** The received chunks that the client has not read. */
class Receiver {
  readonly #chunks: Uint8Array[] = [];
  #end: { readonly error: Error | undefined } | undefined;
  #wake: () => void = () => {};

  add(bytes: Uint8Array): void {
    this.#chunks.push(bytes);
    this.#wake();
  }

  end(error?: Error): void {
    this.#end ??= { error };
    this.#wake();
  }

  async next(): Promise<Read> {
    for (;;) {
      const value = this.#chunks.shift();
      if (value !== undefined) return { done: false, value };
      if (this.#end?.error !== undefined) throw this.#end.error;
      if (this.#end !== undefined) return { done: true };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** Waits until the system has accepted all bytes so far. */
class Sender {
  readonly failed: Promise<never>;
  #fail: (error: Error) => void = () => {};
  #waiting: (() => void)[] = [];

  constructor() {
    this.failed = new Promise((_, reject) => {
      this.#fail = reject;
    });
    this.failed.catch(() => {});
  }

  /** Resolves when no byte is unsent. The client does not wait for one write before the next one. */
  async sent(unsentBytes: number): Promise<void> {
    // If this write has sent the bytes of earlier ones, no event `drained` follows.
    if (unsentBytes === 0) return this.settle();
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  settle(error?: Error): void {
    if (error !== undefined) this.#fail(error);
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
