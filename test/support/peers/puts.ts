import { expect } from 'vitest';
import { type Client, type EtcdError, prefix } from '../../../src/index.js';
import { errorOf } from '../errors.js';

/** For each new key, the error of its put, or undefined if the put succeeded. */
export type Told = ReadonlyMap<string, EtcdError | undefined>;

/**
 * Puts `count` new keys under `name`, at most `lanes` of them concurrently. Calls `onPut` after each put with the
 * number of completed puts. Resolves with the result of each put.
 */
export async function putMany(
  etcd: Client,
  name: string,
  { count, lanes, onPut = () => {} }: { count: number; lanes: number; onPut?: (done: number) => void },
): Promise<Told> {
  const told = new Map<string, EtcdError | undefined>();
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      const key = `${name}/${next++}`;
      const put = etcd.put(key, 'once');
      const failed = await put.then(
        () => undefined,
        () => errorOf(put),
      );
      told.set(key, failed);
      onPut(told.size);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return told;
}

/**
 * Expects that no put was applied twice and that the results match the keys in the store. Resolves with the number of
 * puts whose outcome is unknown.
 */
export async function expectAsTold(reader: Client, name: string, told: Told): Promise<number> {
  const { kvs } = await reader.range(prefix(`${name}/`));
  const versions = new Map(kvs.map((kv) => [kv.key, kv.version]));
  let unknown = 0;
  const wrong = [...told].filter(([key, error]) => {
    const version = versions.get(key);
    if (error === undefined) return version !== 1n;
    if (error.outcome !== 'unknown') return version !== undefined;
    unknown += 1;
    return version !== undefined && version !== 1n;
  });
  expect(
    wrong.map(([key, error]) => `${key}: ${error?.message ?? 'succeeded'}, but its version is ${versions.get(key)}`),
  ).toEqual([]);
  expect(versions.size).toBeLessThanOrEqual(told.size);
  return unknown;
}
