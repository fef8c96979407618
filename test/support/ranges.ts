import { type Client, type Keys, op } from '../../src/index.js';
import type { Random } from '../simulation/random.js';

/** Returns the keys of a range and their values, in hexadecimal. `rename` changes each key. */
export async function contentOf(
  etcd: Client,
  keys: Keys,
  { revision = 0n, rename = (key) => key }: { revision?: bigint; rename?: (key: string) => string } = {},
): Promise<string[]> {
  const content: string[] = [];
  for await (const { keyBytes: key, value } of etcd.scan(keys, { revision }))
    content.push(`${rename(Buffer.from(key).toString('latin1'))} = ${Buffer.from(value).toString('hex')}`);
  return content;
}

/**
 * Makes one random change under `start`: a put, a deletion, or a transaction with up to 30 of them. Some keys are not
 * valid UTF-8.
 */
export async function changeSome(etcd: Client, start: string, random: Random): Promise<void> {
  const key = (): Uint8Array => {
    const name = [...Buffer.from(start), 0x61 + random.below(20)];
    return Uint8Array.from(random.chance(0.2) ? [...name, 0xff, random.below(4)] : name);
  };
  const value = (): Uint8Array => Uint8Array.from({ length: random.below(20) }, () => random.below(256));
  const kind = random.below(10);
  if (kind < 5) await etcd.put(key(), value());
  else if (kind < 8) await etcd.delete(key());
  else {
    const keys = new Map(Array.from({ length: 1 + random.below(30) }, () => [key().join(), key()]));
    const distinct = new Map([...keys.values()].map((each) => [each.join(), each]));
    const then = [...distinct.values()].map((each) => (random.chance(0.7) ? op.put(each, value()) : op.delete(each)));
    await etcd.txn({ then });
  }
}
