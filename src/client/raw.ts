import { checkOptions, EtcdError, invalidInput, isBytes, isPlain, printable, toBytes } from '../base/index.js';
import type { TxnRequest } from '../gen/etcdserverpb/rpc.js';
import { txn } from '../gen/methods/kv.js';
import { methodList, type methods } from '../gen/methods.js';
import {
  type BidiStream,
  type CallOptions,
  openServerStream,
  openStream,
  type Rpc,
  STREAM_OPTIONS,
  type StreamOptions,
} from '../rpc/index.js';
import type { Init, Method } from '../wire/index.js';
import { checkFatal } from './kv/txn-rules.js';

/** The type of the function that calls an RPC. The type depends on which sides of the RPC send a stream of messages. */
export type Stub<M> =
  M extends Method<infer Request, infer Response, infer Kind>
    ? Kind extends 'unary'
      ? (request: Init<Request>, options?: CallOptions) => Promise<Response>
      : Kind extends 'server-streaming'
        ? (request: Init<Request>, options?: StreamOptions) => AsyncIterableIterator<Response>
        : (options?: StreamOptions) => BidiStream<Request, Response>
    : never;

/**
 * One function for each RPC of each service. Each function accepts and returns the messages of etcd's API unchanged.
 * `rawEnums` contains the values of enum fields. `JSON.stringify` accepts each response, and `console.log` prints it
 * readably. The functions refuse only one kind of message that etcd does not refuse:
 * a transaction that would end all members of the cluster for good (rule S36).
 *
 * @example
 * const { members } = await etcd.raw.cluster.memberList({ linearizable: true });
 */
export type Raw = {
  readonly [Service in keyof typeof methods]: {
    readonly [Name in keyof (typeof methods)[Service]]: Stub<(typeof methods)[Service][Name]>;
  };
};

export function rawStubs(rpc: Rpc): Raw {
  const services: Record<string, Record<string, unknown>> = {};
  for (const method of methodList as readonly unknown[] as readonly Method<unknown, object>[]) {
    const { service, name } = namesOf(method);
    services[service] ??= {};
    services[service][name] = stub(rpc, method, `raw.${service}.${name}`);
  }
  return services as Raw;
}

/** Returns the names of a method in `Raw`: `kv` and `deleteRange` for "/etcdserverpb.KV/DeleteRange". */
function namesOf({ path }: Method<unknown, unknown>): { readonly service: string; readonly name: string } {
  const [service = '', name = ''] = path.slice(path.indexOf('.') + 1).split('/');
  return { service: service.toLowerCase(), name: name[0]?.toLowerCase() + name.slice(1).replace('KV', 'Kv') };
}

/** Returns the function of `raw` that calls this method. */
export function stubOf(raw: Raw, method: Method<unknown, unknown>): unknown {
  const { service, name } = namesOf(method);
  return (raw as Readonly<Record<string, Readonly<Record<string, unknown>>>>)[service]?.[name];
}

function stub(rpc: Rpc, method: Method<unknown, object>, what: string): unknown {
  switch (method.kind) {
    case 'unary':
      return async (request: Init<unknown>, options?: CallOptions) => {
        const own = ownMessage(request);
        if (method.path === txn.path) checkTxn(own as Init<TxnRequest> | undefined);
        return printable(await rpc.checkedCall(method as Method<unknown, object, 'unary'>, own, options, what));
      };
    case 'server-streaming':
      return (request: Init<unknown>, options?: StreamOptions) => {
        checkOptions(options, STREAM_OPTIONS, what);
        return withPrintable(openServerStream(rpc, method, ownMessage(request), options));
      };
    case 'bidi-streaming':
      return (options?: StreamOptions) => {
        checkOptions(options, STREAM_OPTIONS, what);
        const stream = withPrintable(openStream(rpc, method, options));
        const { send } = stream;
        return Object.assign(stream, { send: (message: Init<unknown>) => send(ownMessage(message)) });
      };
  }
}

/** Makes the iterator return messages that a program may write as JSON or print. Changes the iterator itself. */
function withPrintable<Messages extends AsyncIterator<object>>(messages: Messages): Messages {
  const next = messages.next.bind(messages);
  return Object.assign(messages, {
    next: async (): Promise<IteratorResult<object>> => {
      const result = await next();
      if (result.done !== true) result.value = printable(result.value);
      return result;
    },
  });
}

/**
 * Refuses a transaction that would end every member: see `checkFatal`.
 *
 * @throws EtcdError with reason `InvalidInput` for such a transaction, and for one with malformed lists of operations.
 */
function checkTxn(message: Init<TxnRequest> | undefined): void {
  try {
    checkFatal(message ?? {});
  } catch (error) {
    if (error instanceof EtcdError) throw error;
    throw invalidInput('message', 'malformed operations', 'a TxnRequest');
  }
}

/**
 * Returns a copy of a message, because the caller may change its buffers and lists before the message is encoded. No
 * message means a message without fields.
 */
function ownMessage<T>(message: T): T {
  return ownField(message ?? {}) as T;
}

function ownField(value: unknown): unknown {
  if (isBytes(value)) return toBytes(value, 'message');
  if (Array.isArray(value)) return value.map(ownField);
  // An instance of a class is not a message. The encoder refuses it.
  if (typeof value !== 'object' || value === null || !isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, ownField(field)]));
}
