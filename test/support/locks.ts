import { expect, inject } from 'vitest';
import type { TxnRequest, WatchResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { type Client, type Interceptor, prefix } from '../../src/index.js';
import { type Held, Mutex, Session, type WaitOptions } from '../../src/locks.js';
import type { FaultProxy } from '../../src/testing/index.js';
import type { Init } from '../../src/wire/protobuf/writer.js';
import type { UnaryCall } from '../../src/wire/transport.js';
import { openClient } from './client.js';
import { faultProxy } from './fault-proxy.js';

export const TXN = '/etcdserverpb.KV/Txn';
export const WATCH = '/etcdserverpb.Watch/Watch';
export const NEVER = { signal: new AbortController().signal };

export async function lock(etcd: Client, name: string, options: WaitOptions = {}): Promise<Held> {
  return new Mutex(await Session.open(etcd), name).lock(options);
}

export async function queueLength(etcd: Client, name: string, length: number): Promise<void> {
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(length);
}

export async function proxied(
  endpoints = inject('endpoints'),
): Promise<{ etcd: Client; direct: Client; proxy: FaultProxy }> {
  const proxy = await faultProxy(endpoints[0] as string);
  return { etcd: openClient({ endpoints: [proxy.endpoint] }), direct: openClient({ endpoints }), proxy };
}

export function plain(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  return value instanceof Uint8Array ? new TextDecoder().decode(value) : value;
}

/** Whether the call reads the queue of a lock: a transaction of reads only. */
export function isQueueRead({ method, request }: UnaryCall<never, never> | UnaryCall<unknown, unknown>): boolean {
  if (method.path !== TXN) return false;
  const { success = [], failure = [] } = request as Init<TxnRequest>;
  return [...success, ...failure].every((each) => each.request?.case === 'requestRange');
}

export function isSerializable({ request }: { readonly request: unknown }): boolean {
  const { success = [] } = request as Init<TxnRequest>;
  return success.every((each) => each.request?.case === 'requestRange' && each.request.value.serializable === true);
}

/** Returns an interceptor that counts the watches that the server has created. */
export function createdWatches(): { readonly interceptor: Interceptor; readonly count: number } {
  let count = 0;
  const interceptor: Interceptor = {
    stream: (call, handler, next) =>
      next(call, {
        message: (message) => {
          if ((message as Partial<WatchResponse>).created) count += 1;
          handler.message(message);
        },
        end: (error) => handler.end(error),
        leaving: () => handler.leaving?.(),
      }),
  };
  return {
    interceptor,
    get count() {
      return count;
    },
  };
}
