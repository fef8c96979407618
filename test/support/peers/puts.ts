import { expect } from 'vitest';
import { type Client, type EtcdError, prefix } from '../../../src/index.js';
import { errorOf } from '../errors.js';

/** What the client said of each put of a fresh key: the error, or undefined where it went well. */
export type Told = ReadonlyMap<string, EtcdError | undefined>;

/** Puts `count` fresh keys under `name`, `lanes` at a time. `onPut` is called after each, with how many are done. */
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

/** Nothing was done twice, and nothing otherwise than the client told. Gives how many puts it could not vouch for. */
export async function expectAsTold(reader: Client, name: string, told: Told): Promise<number> {
  const { kvs } = await reader.range(prefix(`${name}/`));
  const versions = new Map(kvs.map((kv) => [kv.keyText(), kv.version]));
  let doubtful = 0;
  const wrong = [...told].filter(([key, error]) => {
    const version = versions.get(key);
    if (error === undefined) return version !== 1n;
    if (error.outcome !== 'unknown') return version !== undefined;
    doubtful += 1;
    return version !== undefined && version !== 1n;
  });
  expect(wrong.map(([key, error]) => `${key}: ${error?.message ?? 'done'}, but version ${versions.get(key)}`)).toEqual(
    [],
  );
  expect(versions.size).toBeLessThanOrEqual(told.size);
  return doubtful;
}
