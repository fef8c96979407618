import { type BytesLike, checkList, checkOptions, checkPositiveCount, int64Of } from '../../base/index.js';
import {
  type CoreKeyspace,
  checkClient,
  checkKey,
  GET_OPTIONS,
  type GetOptions,
  type KeyValue,
  op,
} from '../../client/index.js';
import { CALL_OPTIONS, type CallOptions, type WithHeader, withHeader } from '../../rpc/index.js';

/** Options of `getMany`. */
export interface GetManyOptions extends GetOptions, CallOptions {
  /**
   * Maximum number of keys that one transaction reads. Must not exceed the option `maxTxnOps` of the client. Default
   * 128, the default of the server's `--max-txn-ops`.
   */
  readonly keysPerTxn?: number | undefined;
}

/** The result of `getMany`. */
export interface Many {
  /** The keys in the order of the request. Undefined for a key that does not exist. */
  readonly kvs: readonly (KeyValue | undefined)[];
}

const GET_MANY_OPTIONS = { keysPerTxn: checkPositiveCount, ...GET_OPTIONS, ...CALL_OPTIONS } as const;
const KEYS_PER_TXN = 128;

/**
 * Reads any number of keys, all at one revision. Up to `keysPerTxn` keys need one transaction; more keys need several
 * transactions, one after the other, which read at the revision of the first transaction. `header` is the header of the
 * first transaction.
 *
 * @throws EtcdError with reason `Compacted` if etcd compacts that revision before the last transaction, and otherwise
 * as `txn` does.
 *
 * @example
 * const { kvs } = await getMany(etcd, ['config/color', 'config/size']);
 * const [color, size] = kvs.map((kv) => kv?.text());
 */
export async function getMany(
  client: CoreKeyspace,
  keys: readonly BytesLike[],
  options: GetManyOptions = {},
): Promise<WithHeader<Many>> {
  checkClient(client, 'txn');
  const all = checkList(keys, 'keys').map((key, index) => checkKey(key, `keys[${index}]`));
  checkOptions(options, GET_MANY_OPTIONS, 'getMany');
  const { keysPerTxn = KEYS_PER_TXN, revision, serializable, keysOnly, ...callOptions } = options;
  const read = (start: number, how: GetOptions): Promise<WithHeader<{ readonly responses: Many['kvs'] }>> => {
    const part = all.slice(start, start + keysPerTxn);
    return client.txn({ then: part.map((key) => op.get(key, how)) }, callOptions);
  };
  const { header, responses } = await read(0, { revision, serializable, keysOnly });
  const kvs = [...responses];
  // If the caller gave no revision, the later reads are not serializable, because another member might not have reached
  // the revision of the first transaction yet.
  const later =
    (int64Of(revision) ?? 0n) === 0n ? { revision: header.revision, keysOnly } : { revision, serializable, keysOnly };
  for (let start = keysPerTxn; start < all.length; start += keysPerTxn)
    kvs.push(...(await read(start, later)).responses);
  return withHeader(header, { kvs });
}
