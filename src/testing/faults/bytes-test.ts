import { toBytes } from '../../base/index.js';

/**
 * Returns whether the bytes of one read from a socket match a condition. If a message spans several reads, each call
 * receives one piece of the message.
 */
export type BytesTest = (bytes: Uint8Array) => boolean;

/**
 * Returns a function that tests whether bytes contain all of the given parts. A string stands for its UTF-8 bytes.
 *
 * @example
 * import { containing, FaultProxy } from 'etcdwire/testing';
 *
 * await using proxy = await FaultProxy.start('http://127.0.0.1:2379');
 * const lost = proxy.loseNextAnswer(containing('/etcdserverpb.KV/Put'));
 */
export function containing(...parts: readonly (string | Uint8Array)[]): BytesTest {
  const wanted = parts.map((part, index) => Buffer.from(toBytes(part, `parts[${index}]`)));
  return (bytes) => {
    const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    return wanted.every((part) => given.includes(part));
  };
}
