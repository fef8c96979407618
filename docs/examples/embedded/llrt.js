// An adapter for LLRT, which has `node:net`, but neither `node:tls` nor web streams. The project has never run it, because
// it could not obtain a release of LLRT: the adapter follows the documentation, and may be wrong. Bundle the program
// without the condition `node`. JavaScript components for WASI that import `node:net` may use the adapter, too.

import { connect as open } from 'node:net';

/** The option `connect` of `http2`. */
export const connect = ({ address }, { signal }) =>
  new Promise((resolve, reject) => {
    const socket = open(address.port, address.host);
    signal.addEventListener('abort', () => socket.destroy());
    const chunks = [];
    let [wake, end, fail] = [() => {}, undefined, () => {}];
    const failed = new Promise((_, rejectFailed) => (fail = rejectFailed));
    failed.catch(() => {});
    const ended = (error) => {
      end ??= { error };
      if (error) fail(error);
      reject(error ?? new Error('the connection was closed'));
      wake();
    };
    socket.on('data', (bytes) => wake(chunks.push(bytes)));
    socket.on('error', ended);
    socket.on('close', () => ended());
    const close = () => new Promise((sent) => socket.end(sent));
    const abort = async () => void socket.destroy();
    const read = async () => {
      while (chunks.length === 0 && end === undefined) await new Promise((resolveRead) => (wake = resolveRead));
      if (chunks.length > 0) return { done: false, value: chunks.shift() };
      if (end.error) throw end.error;
      return { done: true };
    };
    const write = (bytes) => new Promise((sent) => (socket.write(bytes) ? sent() : socket.once('drain', sent)));
    const readable = { getReader: () => ({ read, cancel: abort }), cancel: abort };
    const writer = { closed: failed, write, close, abort };
    socket.on('connect', () => resolve({ readable, writable: { getWriter: () => writer, abort } }));
  });
