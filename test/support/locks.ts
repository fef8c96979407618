import { expect, inject } from 'vitest';
import { type Held, Mutex, Session, type WaitOptions } from '../../src/concurrency/index.js';
import { type Client, prefix } from '../../src/index.js';
import type { FaultProxy } from '../../src/testing/index.js';
import { openClient } from './client.js';
import { faultProxy } from './fault-proxy.js';

export const TXN = '/etcdserverpb.KV/Txn';
export const WATCH = '/etcdserverpb.Watch/Watch';
export const NEVER = new AbortController().signal;

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
