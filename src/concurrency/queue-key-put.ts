import { traceCalls } from '../channel/attempts.js';
import { type CallOptions, internally } from '../channel/rpc.js';
import type { KeyValue } from '../kv/key-value.js';
import { onAbort, orAborted } from '../runtime/signals.js';

/** The result of a transaction that puts a queue key, or that reads the key if the transaction does not succeed. */
type EnterResult = { readonly header: { readonly revision: bigint } } & (
  | { readonly succeeded: true; readonly responses: unknown }
  | { readonly succeeded: false; readonly responses: readonly [KeyValue | undefined, ...unknown[]] }
);

/**
 * Makes the calls of one wait that put its queue key. If the wait ends while a server may have received the put, the put
 * continues without the wait, because its answer tells whether the key exists.
 */
export class QueueKeyPut {
  readonly #lifetime: AbortSignal;
  /** The create revision that the unanswered put will return. */
  #unanswered: Promise<bigint | undefined> | undefined;

  /** `lifetime` aborts when the session ends. */
  constructor(lifetime: AbortSignal) {
    this.#lifetime = lifetime;
  }

  /** Makes a call. @throws the reason of `signal` if `signal` aborts first. */
  async call<T extends EnterResult>(signal: AbortSignal, call: (options: CallOptions) => Promise<T>): Promise<T> {
    if (signal === this.#lifetime) return call({ signal });
    const controller = new AbortController();
    let isSent = false;
    const offEnd = onAbort(this.#lifetime, () => controller.abort(this.#lifetime.reason));
    const offAbort = onAbort(signal, () => {
      if (!isSent) controller.abort(signal.reason);
    });
    traceCalls(controller.signal, signal);
    const onSent = (): void => {
      isSent = true;
    };
    const onRetry = (): void => {
      isSent = false;
    };
    const result = call(internally({ signal: controller.signal }, { onSent, onRetry })).finally(() => {
      offEnd();
      offAbort();
    });
    this.#unanswered = result.then(({ header, succeeded, responses }) =>
      succeeded ? header.revision : responses[0]?.createRevision,
    );
    this.#unanswered.catch(() => {});
    try {
      return await orAborted(result, signal);
    } finally {
      if (!signal.aborted) this.#unanswered = undefined;
    }
  }

  /**
   * Waits for the answer to a put that was unanswered when the wait ended. Resolves with the create revision of the
   * queue key if the key exists. @throws EtcdError if the put failed.
   */
  async answer(): Promise<bigint | undefined> {
    return this.#unanswered;
  }
}
