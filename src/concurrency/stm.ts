import { EtcdError } from '../errors/etcd-error.js';
import { checkClient, type Keyspace } from '../keyspace.js';
import { checkChoice, checkCount, checkFunction, checkOptions } from '../runtime/arguments.js';
import { backoffMs, pause } from '../runtime/timers.js';
import { ISOLATIONS, type Isolation, StmTransaction } from './stm-transaction.js';
import { WAIT_OPTIONS, type WaitOptions, waitLimit } from './wait-limit.js';

const DEFAULT_MAX_ATTEMPTS = 100;
/** Rounds after which waiting longer does not help: whoever conflicts is done within milliseconds. */
const MAX_BACKOFF_ROUND = 3;

export interface StmOptions extends WaitOptions {
  /** What others may do meanwhile; see `Isolation`. Default `serializableSnapshot`. */
  readonly isolation?: Isolation | undefined;
  /** How often to try where others change what was read. Default 100. */
  readonly maxAttempts?: number | undefined;
}

const STM_OPTIONS = { isolation: true, maxAttempts: true, ...WAIT_OPTIONS } as const;

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
  checkClient(client);
  checkFunction(apply, 'apply');
  checkOptions(options, STM_OPTIONS, 'stm');
  const { isolation: level = 'serializableSnapshot', maxAttempts: attempts = DEFAULT_MAX_ATTEMPTS, ...wait } = options;
  const isolation = checkChoice(ISOLATIONS, level, 'isolation');
  const maxAttempts = Number(checkCount(attempts, 'maxAttempts', 1n));
  const limit = waitLimit('stm', wait);
  let tx = new StmTransaction(client, isolation, limit.signal);
  try {
    for (let attempt = 1; ; attempt += 1) {
      limit.signal.throwIfAborted();
      const run = await attemptOnce(tx, apply);
      if (run.done) return run.result;
      if (attempt === maxAttempts) throw conflict(maxAttempts);
      await pause(backoffMs(Math.min(attempt - 1, MAX_BACKOFF_ROUND)), limit.signal);
      tx = run.next ?? new StmTransaction(client, isolation, limit.signal);
    }
  } catch (error) {
    if (!limit.signal.aborted || !(error instanceof EtcdError)) throw error;
    // Of what was going on when time was up only the commit can have had an effect.
    const uncertain = tx.committing && error.outcome === 'unknown';
    if (uncertain) limit.settle('unknown');
    throw limit.endedBy(error);
  } finally {
    limit.dispose();
  }
}

type Run<T> =
  | { readonly done: true; readonly result: T }
  /** What a conflict left, if anything, for the next run. */
  | { readonly done: false; readonly next: StmTransaction | undefined };

async function attemptOnce<T>(tx: StmTransaction, apply: (tx: StmTransaction) => Promise<T> | T): Promise<Run<T>> {
  try {
    const result = await apply(tx);
    const next = await tx.commit();
    return next === undefined ? { done: true, result } : { done: false, next };
  } catch (error) {
    // The revision that all reads were to be of is gone.
    if (error instanceof EtcdError && error.reason === 'Compacted') return { done: false, next: undefined };
    throw error;
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
