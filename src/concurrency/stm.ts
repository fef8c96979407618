import { checkChoice, checkCount } from '../arguments.js';
import { EtcdError } from '../errors.js';
import type { Keyspace } from '../keyspace.js';
import { backoffMs, pause } from '../time.js';
import { ISOLATIONS, type Isolation, StmTransaction } from './stm-transaction.js';
import { type WaitOptions, waitLimit } from './wait-limit.js';

const DEFAULT_MAX_ATTEMPTS = 100;
/** Rounds after which waiting longer does not help: whoever conflicts is done within milliseconds. */
const MAX_BACKOFF_ROUND = 3;

export interface StmOptions extends WaitOptions {
  /** What others may do meanwhile; see `Isolation`. Default `serializableSnapshot`. */
  readonly isolation?: Isolation | undefined;
  /** How often to try where others change what was read. Default 100. */
  readonly maxAttempts?: number | undefined;
}

/**
 * Software transactional memory: `apply` reads and writes keys, and what it wrote takes effect all at once, provided
 * that nobody changed what it relied on; otherwise it is run again. So it must have no effects but through `tx`. Gives
 * what `apply` returned. What `apply` throws is passed on, and nothing is written.
 *
 * @throws EtcdError, reason `TxnConflict`, where others were faster `maxAttempts` times. A write whose outcome is
 * unknown is not repeated: the error says so.
 */
export async function stm<T>(
  client: Keyspace,
  apply: (tx: StmTransaction) => Promise<T> | T,
  options: StmOptions = {},
): Promise<T> {
  const isolation = checkChoice(ISOLATIONS, options.isolation ?? 'serializableSnapshot', 'isolation');
  const maxAttempts = Number(checkCount(options.maxAttempts ?? DEFAULT_MAX_ATTEMPTS, 'maxAttempts', 1n));
  const limit = waitLimit('stm', options);
  try {
    let tx = new StmTransaction(client, isolation, limit.signal);
    for (let attempt = 1; ; attempt += 1) {
      limit.signal.throwIfAborted();
      let next: StmTransaction | undefined;
      try {
        const result = await apply(tx);
        next = await tx.commit();
        if (next === undefined) return result;
      } catch (error) {
        // The revision that all reads were to be of is gone.
        if (!(error instanceof EtcdError) || error.reason !== 'Compacted') throw error;
        next = new StmTransaction(client, isolation, limit.signal);
      }
      if (attempt === maxAttempts) throw conflict(maxAttempts);
      await pause(backoffMs(Math.min(attempt - 1, MAX_BACKOFF_ROUND)), limit.signal);
      tx = next;
    }
  } catch (error) {
    const isEnd = limit.signal.aborted && error instanceof EtcdError && error.outcome !== 'unknown';
    throw isEnd ? limit.signal.reason : error;
  } finally {
    limit.dispose();
  }
}

function conflict(attempts: number): EtcdError {
  const times = attempts === 1 ? 'once' : `${attempts} times`;
  return new EtcdError(`others changed what the transaction read, ${times} in a row; nothing was written`, {
    code: 'Aborted',
    reason: 'TxnConflict',
    outcome: 'rejected',
  });
}
