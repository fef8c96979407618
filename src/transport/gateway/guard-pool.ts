import { amended, EtcdError, explained } from '../../errors/etcd-error.js';
import { CompareResult, CompareTarget } from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import type { Init } from '../../protobuf/codec.js';
import type { Method } from '../../protobuf/schema.js';
import { concatBytes, textOf, toBytes } from '../../runtime/bytes.js';
import { TurnQueue } from '../../runtime/queues.js';
import { onAbort } from '../../runtime/signals.js';
import { randomId } from '../../runtime/text.js';
import { monotonicMs } from '../../runtime/timers.js';

/** Makes one call with the metadata and within the time of the write that needs it. Calls `onSent` before it leaves. */
export type Ask = <Request, Response>(
  method: Method<Request, Response>,
  request: Init<Request>,
  onSent?: () => void,
) => Promise<Response>;

/** A key that serves one write at a time. Only the client that created it writes it. */
export interface Guard {
  readonly key: Uint8Array;
  /** Mod revision of the key, as far as this client knows. */
  revision: bigint;
  /** Writes so far: each leaves its number in the key, so that a later read tells whose write came through. */
  writes: number;
  /** When the guard is no longer used: half of the TTL of its lease after the request for it. */
  readonly expires: Expiry;
}

/** On both clocks, because the monotonic clock of some hosts stands still while the machine sleeps. */
interface Expiry {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** Keys are deleted this long after their client created them. */
const TTL_SECONDS = 600;
const USABLE_MS = (TTL_SECONDS / 2) * 1_000;
/** Guarded writes that are under way at a time; others wait. Browsers have six connections to one host. */
const MAX_GUARDS = 32;
/** What a key is created with. */
const CREATED_WITH = 0;

/** Guards of one client: free ones are used again, the one used last first, and new ones are created on demand. */
export class GuardPool {
  readonly #prefix: Uint8Array;
  #free: Guard[] = [];
  #taken = 0;
  /** Writes that wait for one of the taken guards. */
  readonly #waiting = new TurnQueue<() => void>();

  constructor(prefix: Uint8Array) {
    this.#prefix = prefix;
  }

  /** Rejects with an error of outcome `not-sent`, because the write for which the guard is needed has not left. */
  async take(ask: Ask, signal: AbortSignal): Promise<Guard> {
    if (this.#taken < MAX_GUARDS) this.#taken += 1;
    else await this.#turn(signal);
    try {
      for (let guard = this.#free.pop(); guard !== undefined; guard = this.#free.pop())
        if (isUsable(guard.expires)) return guard;
      return await create(this.#prefix, ask);
    } catch (error) {
      this.discard();
      throw error instanceof EtcdError ? amended(error, { outcome: 'not-sent' }) : error;
    }
  }

  /** The write succeeded, and the guard's revision is known. */
  putBack(guard: Guard): void {
    this.#free.push(guard);
    this.#leave();
  }

  /** What became of a taken guard is not known, or it is gone. It is never used again. */
  discard(): void {
    this.#leave();
  }

  /** Somebody deleted a guard key: the others are likely gone, too. */
  discardFree(): void {
    this.#free = [];
  }

  #leave(): void {
    const next = this.#waiting.take();
    if (next === undefined) this.#taken -= 1;
    else next();
  }

  /** Resolves when the place of a taken guard is handed over. */
  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        offAbort();
        resolve();
      };
      const offAbort = onAbort(signal, () => {
        this.#waiting.delete(enter);
        reject(signal.reason);
      });
      this.#waiting.add(enter);
    });
  }
}

function isUsable(expires: Expiry): boolean {
  const wallMs = Date.now();
  return monotonicMs() < expires.monotonicMs && wallMs < expires.wallMs && wallMs >= expires.wallMs - USABLE_MS;
}

/**
 * Both requests are safe to repeat. A lease of this ID is this client's own, whoever says that it exists already. The
 * key is put only where there is none; a copy that arrives after somebody deleted the key leaves a key that no write
 * compares with, because its revision is a new one.
 */
async function create(prefix: Uint8Array, ask: Ask): Promise<Guard> {
  const id = randomId();
  const key = concatBytes(prefix, toBytes(id.toString(16).padStart(16, '0'), 'id'));
  const expires = { monotonicMs: monotonicMs() + USABLE_MS, wallMs: Date.now() + USABLE_MS };
  await ask(methods.lease.leaseGrant, { id, ttl: BigInt(TTL_SECONDS) }).catch((error: EtcdError) => {
    if (error.reason !== 'LeaseExist') throw error;
  });
  const value = markOf(CREATED_WITH);
  const missing = { target: CompareTarget.CREATE, result: CompareResult.EQUAL, key } as const;
  const { header, succeeded, responses } = await ask(methods.kv.txn, {
    compare: [{ ...missing, targetUnion: { case: 'createRevision', value: 0n } }],
    success: [{ request: { case: 'requestPut', value: { key, value, lease: id } } }],
    failure: [{ request: { case: 'requestRange', value: { key } } }],
  }).catch((error: EtcdError) => {
    throw error.reason === 'PermissionDenied' ? notPermitted(error, prefix) : error;
  });
  const found = responses[0]?.response;
  const earlier = found?.case === 'responseRange' ? found.value.kvs[0]?.modRevision : undefined;
  const revision = succeeded ? header?.revision : earlier;
  if (revision) return { key, revision, writes: CREATED_WITH, expires };
  throw new EtcdError('the guard key of the write was deleted as soon as it was there', {
    code: 'Unavailable',
    reason: 'ConnectionLost',
    outcome: 'not-sent',
  });
}

/** The prefix is a setting of the client, so the error may show it. */
function notPermitted(error: EtcdError, prefix: Uint8Array): EtcdError {
  const problem =
    `the user may not read and write keys with the prefix ${JSON.stringify(textOf(prefix))}: this host may send a ` +
    'request twice, so each write goes with a guard key. Grant the user the permission readwrite on the prefix, or ' +
    'set gateway({ guardPrefix }) to a prefix that the user may read and write';
  return explained(error, problem);
}

/** What the key has after so many writes. */
export function markOf(writes: number): Uint8Array {
  return toBytes(String(writes), 'writes');
}
