import type { RequestOp, TxnRequest } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { EtcdError } from '../../src/index.js';
import { defaultTransport } from '../../src/transport/default-transport.js';
import type { TransportFactory } from '../../src/transport/transport.js';

/** What a test makes of a transaction, given what it does where its conditions hold. `send` may come late. */
export type OnTransaction = (ops: readonly RequestOp[], send: () => Promise<unknown>) => Promise<unknown>;

export interface StagedOptions {
  readonly onTransaction?: OnTransaction;
  /** Leases of which it is said that they are gone, though the server has them still. */
  readonly dead?: ReadonlySet<bigint>;
}

/** The real transport, where a test has its hand on every transaction, and on what is said of leases. */
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
        return onTransaction(success, () => real.unary(unbounded)) as never;
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

/** Whether one of these, or of those within them, puts a key that begins so. */
export function puts(ops: readonly RequestOp[], key: string): boolean {
  return all(ops).some(({ request }) => request?.case === 'requestPut' && startsWith(request.value.key, key));
}

/** Whether one of these, or of those within them, deletes a key that begins so. */
export function deletes(ops: readonly RequestOp[], key: string): boolean {
  return all(ops).some(({ request }) => request?.case === 'requestDeleteRange' && startsWith(request.value.key, key));
}

function all(ops: readonly RequestOp[]): readonly RequestOp[] {
  return ops.flatMap((op) => (op.request?.case === 'requestTxn' ? all(op.request.value.success) : [op]));
}

/** How a call ends of which nobody knows what became. */
export function answerLost(): EtcdError {
  return new EtcdError('the answer was lost', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
}

function startsWith(bytes: Uint8Array, text: string): boolean {
  return Buffer.from(bytes).toString().startsWith(text);
}
