import type { SecureServerOptions, ServerOptions } from 'node:http2';
import { methods } from '../../../src/gen/methods.js';
import { type NodeCall, type NodePeer, nodePeer } from './node-peer.js';

/** A `node:http2` server that keeps what is put, by the text of its key; stopped when the test ends. */
export function nodeStore(
  options: ServerOptions | SecureServerOptions = {},
  before: (call: NodeCall) => void | Promise<void> = () => {},
): Promise<NodePeer> {
  const store = new Map<string, Uint8Array>();
  const { put, range } = methods.kv;
  return nodePeer(async (call) => {
    await before(call);
    if (call.is(put)) {
      const { key, value } = await call.request(put.request);
      store.set(String(key), value);
      call.answer(put.response, {});
    } else if (call.is(range)) {
      const { key } = await call.request(range.request);
      const value = store.get(String(key));
      call.answer(range.response, { kvs: value === undefined ? [] : [{ key, value, version: 1n }], count: 1n });
    } else call.trailersOnly(12, 'unknown method');
  }, options);
}
