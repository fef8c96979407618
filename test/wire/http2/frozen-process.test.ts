import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import type { FaultProxy } from '../../../src/testing/index.js';
import { type Child, startScript } from '../../support/child.js';
import { openClient, unique } from '../../support/client.js';
import { faultProxy } from '../../support/fault-proxy.js';
import { ownEtcd } from '../../support/own-etcd.js';

// In these tests, a process is frozen (SIGSTOP) or idle. Meanwhile its connection dies without a packet, as when a NAT
// forgets the connection.
// Rule S43 (docs/semantics.md): The client tests the connection before it sends the next request.

const FROZEN_MS = 5_000;

describe('the first put of a process that was frozen for 5 s', () => {
  test('is answered over the same connection when the connection still works', async () => {
    const { proxy, connections } = await forgettingProxy();
    const { child, key } = await started(proxy.endpoint);
    expect(await putAfterFreeze(child, key)).toBe('ok');
    expect([await versionOf(key), connections()]).toEqual([2n, 1]);
  });

  test('is answered and applied once when its connection has silently died', async () => {
    const { proxy, forget } = await forgettingProxy();
    const { child, key } = await started(proxy.endpoint);
    expect(await putAfterFreeze(child, key, forget)).toBe('ok');
    expect(await versionOf(key)).toBe(2n);
  });

  test('is answered and applied once when the connections to three members have silently died', async () => {
    const proxies = await Promise.all([forgettingProxy(), forgettingProxy(), forgettingProxy()]);
    const { child, key } = await started(...proxies.map(({ proxy }) => proxy.endpoint));
    const forget = (): void => {
      for (const proxy of proxies) proxy.forget();
    };
    expect(await putAfterFreeze(child, key, forget)).toBe('ok');
    expect(await versionOf(key)).toBe(2n);
  });

  test('is answered and applied once when the server has restarted', async () => {
    const etcd = await ownEtcd();
    const [endpoint = ''] = etcd.endpoints;
    const [member] = etcd.cluster?.members ?? [];
    if (member === undefined) return;
    const { child, key } = await started(endpoint);
    const restart = async (): Promise<void> => {
      await member.kill();
      await member.start();
    };
    expect(await putAfterFreeze(child, key, restart)).toBe('ok');
    expect((await openClient({ endpoints: [endpoint] }).get(key))?.version).toBe(2n);
  });
});

describe('the first put after 5 s without a call', () => {
  test('is answered and applied once when the connection has silently died', async () => {
    const { proxy, forget } = await forgettingProxy();
    const client = openClient({ endpoints: [proxy.endpoint] });
    const key = unique();
    await client.put(key, 'before');
    forget();
    await pause(FROZEN_MS);
    await client.put(key, 'after');
    expect(await versionOf(key)).toBe(2n);
  });
});

/** Starts a proxy in front of etcd. `forget` silences the existing connections of the proxy, but not later ones. */
async function forgettingProxy(): Promise<{
  readonly proxy: FaultProxy;
  readonly forget: () => void;
  /** Returns how many connections a client has made so far. */
  readonly connections: () => number;
}> {
  let connections = 0;
  const proxy = await faultProxy(inject('endpoints')[0] as string, {
    senderOf: (bytes) => (Buffer.from(bytes).toString('latin1', 0, 3) === 'PRI' ? `${++connections}` : undefined),
  });
  const forget = (): void => {
    for (let sender = connections; sender > 0; sender -= 1) proxy.cutOff(`${sender}`);
  };
  return { proxy, forget, connections: () => connections };
}

async function started(...endpoints: readonly string[]): Promise<{ readonly child: Child; readonly key: string }> {
  const key = unique();
  const program = new URL('../../support/frozen-program.ts', import.meta.url);
  const child = startScript(program, [key, ...endpoints], { stdin: 'pipe' });
  onTestFinished(() => void child.process.kill('SIGCONT'));
  expect(await child.line()).toBe('ready');
  return { child, key };
}

/**
 * Freezes the process while `meanwhile` runs, and for `FROZEN_MS`. Resolves with the outcome of the put that the
 * process makes as soon as it resumes.
 */
async function putAfterFreeze(
  child: Child,
  key: string,
  meanwhile: () => unknown = () => {},
): Promise<string | undefined> {
  child.process.kill('SIGSTOP');
  await expect.poll(() => readFileSync(`/proc/${child.process.pid}/stat`, 'utf8')).toContain(') T ');
  await Promise.all([meanwhile(), pause(FROZEN_MS)]);
  child.process.stdin?.write(`${key}\n`);
  child.process.kill('SIGCONT');
  return (await child.line()).split(' ')[0];
}

async function versionOf(key: string): Promise<bigint | undefined> {
  return (await openClient().get(key))?.version;
}
