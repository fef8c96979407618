import { prefix } from '../../src/index.js';
import { openClient, unique } from './client.js';

/**
 * Notes all puts of keys with this prefix from now on. The function that it returns resolves with their keys, in order.
 * Call this function when no further put can come: an expectation that something was not put is meaningless before.
 */
export async function putsSince(start: string): Promise<() => Promise<readonly string[]>> {
  const etcd = openClient();
  const watch = etcd.watch(prefix(start), { only: 'put' });
  await watch.created();
  return async () => {
    const marker = `${start}${unique('marker')}`;
    await etcd.put(marker, '');
    const keys: string[] = [];
    for await (const event of watch) {
      if (event.key === marker) break;
      keys.push(event.key);
    }
    return keys;
  };
}
