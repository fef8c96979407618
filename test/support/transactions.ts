import type { RequestOp, TxnRequest } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { type Client, EtcdError, type Interceptor } from '../../src/index.js';
import { defaultTransport } from '../../src/wire/default-transport.js';
import type { Init } from '../../src/wire/protobuf/writer.js';
import type { TransportFactory } from '../../src/wire/transport.js';

/**
 * Handles a transaction in place of the transport, and returns the result of the transaction. `ops` are the operations
 * that the transaction makes if its conditions hold. `send`, called at once or later, sends the transaction to the
 * server and returns the server's result. `copyFrom` sends it through another client, which also works after the close
 * of the first client.
 */
export type OnTransaction = (
  ops: readonly RequestOp[],
  send: () => Promise<unknown>,
  copyFrom: (other: Client) => Promise<unknown>,
) => Promise<unknown>;

export interface StagedOptions {
  /** Handles every transaction. Default: sends it to the server at once. */
  readonly onTransaction?: OnTransaction;
  /** The IDs of the leases that the transport reports as expired, although the server still has them. */
  readonly dead?: ReadonlySet<bigint>;
}

/**
 * Returns a factory of default transports. In these transports, `onTransaction` handles every transaction, and the
 * leases in `dead` appear to have expired.
 */
export function stagedTransport({
  onTransaction = (_, send) => send(),
  dead = new Set(),
}: StagedOptions): TransportFactory {
  return (endpoint, options) => {
    const real = defaultTransport(endpoint, options);
    return {
      unary: (call) => {
        if (call.method.path !== methods.kv.txn.path) return real.unary(call);
        const { success = [] } = call.request as Partial<TxnRequest>;
        const unbounded = { ...call, signal: undefined, deadline: Number.POSITIVE_INFINITY };
        const copyFrom = (other: Client) => other.rpc.call(methods.kv.txn, call.request as Init<TxnRequest>);
        return onTransaction(success, () => real.unary(unbounded), copyFrom) as never;
      },
      stream: (call, handler) =>
        real.stream(call, {
          message: (message) => {
            const { id } = message as { readonly id?: bigint };
            handler.message(id !== undefined && dead.has(id) ? { ...message, ttl: 0n } : message);
          },
          end: (error) => handler.end(error),
          leaving: () => handler.leaving?.(),
        }),
      close: () => real.close(),
    };
  };
}

/** Returns an interceptor that handles transactions. `ops` are the operations of the transaction if its conditions hold. */
export function transactions(
  handle: (ops: readonly RequestOp[], send: () => Promise<never>, signal?: AbortSignal) => Promise<unknown>,
): Interceptor {
  return {
    async unary(call, next) {
      if (call.method.path !== methods.kv.txn.path) return next(call);
      const { success = [] } = call.request as Partial<TxnRequest>;
      const { signal = undefined } = call as { readonly signal?: AbortSignal | undefined };
      return (await handle(success, () => next(call) as Promise<never>, signal)) as never;
    },
  };
}

/** Whether an operation, or an operation in the `then` list of a nested transaction, puts a key with this prefix. */
export function puts(ops: readonly RequestOp[], key: string): boolean {
  return all(ops).some(({ request }) => request?.case === 'requestPut' && startsWith(request.value.key, key));
}

/**
 * Whether an operation, or an operation in the `then` list of a nested transaction, deletes a key or range that starts
 * with this prefix.
 */
export function deletes(ops: readonly RequestOp[], key: string): boolean {
  return all(ops).some(({ request }) => request?.case === 'requestDeleteRange' && startsWith(request.value.key, key));
}

function all(ops: readonly RequestOp[]): readonly RequestOp[] {
  return ops.flatMap((op) => (op.request?.case === 'requestTxn' ? all(op.request.value.success) : [op]));
}

/** Creates the error of a call whose response was lost and whose outcome is therefore unknown. */
export function answerLost(): EtcdError {
  return new EtcdError('the answer was lost', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
}

function startsWith(bytes: Uint8Array, text: string): boolean {
  return Buffer.from(bytes).toString().startsWith(text);
}
