import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import { pause } from '../../src/base/timers.js';
import { Client } from '../../src/index.js';
import { freePorts } from '../../src/testing/etcd/free-ports.js';
import { FaultProxy } from '../../src/testing/index.js';
import { findEtcd, startEtcd } from '../etcd.js';
import { type CheckResult, expect, problemOf } from './conformance.js';
import { ServedWorker, type Surroundings } from './hosts.js';
import type { InstalledPackage } from './installed.js';
import { Tap } from './tap.js';

// Runs the programs for edge workers in workerd, and checks what docs/runtimes.md says about them. The page shows the
// program worker.js, and the others are files in docs/examples/edge.

const DOCS = fileURLToPath(new URL('../../docs/', import.meta.url));
const [, WORKER = ''] =
  /^```js\n\/\/ worker\.js\n(.*?)^```/ms.exec(readFileSync(join(DOCS, 'runtimes.md'), 'utf8')) ?? [];

/** A program that does what the page warns of. */
const SHARED = `
import { Client } from 'etcdwire';
let etcd;
export default {
  async fetch(_, env) {
    etcd ??= new Client({ endpoints: [env.ETCD] });
    return new Response(await etcd.put('shared', 'x').then(() => 'done', (error) => error.message));
  },
};
`;
const VISITORS = 20;
const MEASURED_REQUESTS = 200;
/** How long a check waits for an effect, in milliseconds. */
const TIMEOUT_MS = 60_000;
const LOOK_MS = 20;

/** Starts a program that finds etcd in `ETCD` or `PROXY` of its environment. */
type Serve = (code: string, etcd: string, surroundings?: Surroundings) => Promise<ServedWorker>;

/** Resolves with the results of the checks, and with the CPU time of a small request in milliseconds. */
export async function checkEdge(
  workerd: string,
  installed: InstalledPackage,
  conditions: readonly string[],
): Promise<{ readonly checks: readonly CheckResult[]; readonly requestMs: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-edge-'));
  const authority = await Authority.create();
  const serve: Serve = async (code, etcd, surroundings = {}) => {
    const bundle = await installed.bundleOf(code, conditions);
    return ServedWorker.start(workerd, bundle, authority.cert, { etcd, ...surroundings });
  };
  let requestMs = 0;
  const CHECKS: Readonly<Record<string, () => Promise<void>>> = {
    'a client for each request': async () => {
      requestMs = await visits(serve);
    },
    'a client of another request': () => otherRequest(serve),
    'no etcd': () => noEtcd(serve),
    'a binding with fetch': () => binding(serve),
    'TLS to a proxy': () => tlsToProxy(serve, authority),
    'TLS without ALPN': () => tlsWithoutAlpn(serve, authority, folder),
    'a watch in a Durable Object': () => settings(serve, folder),
  };
  try {
    const checks: CheckResult[] = [];
    for (const [check, perform] of Object.entries(CHECKS)) checks.push({ check, problem: await problemOf(perform()) });
    return { checks, requestMs };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function visits(serve: Serve): Promise<number> {
  await using etcd = await startEtcd();
  using tap = await Tap.start(etcd.endpoints[0] as string);
  using worker = await serve(WORKER, `http://${tap.address}`);
  const visit = (method = 'POST'): Promise<string> => textOf(worker, { method });
  const numbers = await Promise.all(Array.from({ length: VISITORS }, () => visit()));
  const sorted = numbers.map(Number).sort((a, b) => a - b);
  expect('each visitor gets another number', sorted.join() === Array.from(sorted, (_, index) => index + 1).join());
  expect('a request reads what others have written', (await visit('GET')) === String(VISITORS));
  // `ServedWorker` has sent one more request, to find out whether the worker serves requests.
  expect(`a request needs one connection, not ${tap.opened}`, tap.opened === VISITORS + 2);
  await until('the connections of ended requests are closed', () => tap.open === 0);
  const before = worker.cpuMs;
  for (let count = 0; count < MEASURED_REQUESTS; count += 1) await visit('GET');
  return (worker.cpuMs - before) / MEASURED_REQUESTS;
}

async function otherRequest(serve: Serve): Promise<void> {
  await using etcd = await startEtcd();
  using worker = await serve(SHARED, etcd.endpoints[0] as string);
  const response = await worker.fetch();
  const answer = await response.text();
  // Which of the two happens depends on whether the socket of the other request is already closed.
  const saysWhatToDo = answer.includes('create a client in each request');
  const isCanceled = response.status === 500 && answer === 'Internal Server Error';
  expect(`the error says what to do, or workerd cancels the request: ${answer}`, saysWhatToDo || isCanceled);
}

async function noEtcd(serve: Serve): Promise<void> {
  using worker = await serve(WORKER, 'http://127.0.0.1:2', { isSilent: true });
  const statuses = ['GET', 'POST'].map(async (method) => (await worker.fetch({ method })).status);
  expect('a request fails within its time limits', (await Promise.all(statuses)).join() === '500,500');
}

async function binding(serve: Serve): Promise<void> {
  await using etcd = await startEtcd();
  using worker = await serve(example('vpc.js'), etcd.endpoints[0] as string);
  expect('the program reaches etcd through the binding', (await textOf(worker)) === 'red');
}

async function tlsToProxy(serve: Serve, authority: Authority): Promise<void> {
  await using etcd = await startEtcd();
  const [endpoint = ''] = etcd.endpoints;
  using tap = await Tap.start(endpoint, await authority.issue({ names: ['127.0.0.1'] }));
  using worker = await serve(example('tls.js'), `http://${tap.address}`);
  expect('the program reaches etcd through TLS', (await textOf(worker)) === 'red');
  using other = await Tap.start(endpoint, await (await Authority.create()).issue({ names: ['127.0.0.1'] }));
  using refusing = await serve(example('tls.js'), `http://${other.address}`, { isSilent: true });
  expect('workerd refuses a proxy that it does not trust', (await refusing.fetch()).status === 500);
}

async function tlsWithoutAlpn(serve: Serve, authority: Authority, folder: string): Promise<void> {
  const found = await findEtcd();
  if (found.kind !== 'binary') return;
  const [port, httpPort, peerPort] = await freePorts(3);
  const url = `https://127.0.0.1:${port}`;
  const { cert, key } = await authority.issue({ names: ['127.0.0.1'] });
  const flags = {
    ...{ 'data-dir': join(folder, 'etcd'), 'cert-file': join(folder, 'cert.pem'), 'key-file': join(folder, 'key.pem') },
    ...{ 'listen-client-urls': url, 'advertise-client-urls': url },
    'listen-client-http-urls': `https://127.0.0.1:${httpPort}`,
    'listen-peer-urls': `http://127.0.0.1:${peerPort}`,
  };
  writeFileSync(flags['cert-file'], cert);
  writeFileSync(flags['key-file'], key);
  const etcd = spawn(
    found.etcd,
    Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
    { env: { PATH: process.env.PATH, GRPC_ENFORCE_ALPN_ENABLED: 'false' }, stdio: 'ignore' },
  );
  try {
    using worker = await serve(WORKER, url);
    // The client waits for etcd to start.
    expect('the program reaches etcd through TLS', (await textOf(worker, { method: 'POST' })) === '1');
  } finally {
    const exited = once(etcd, 'exit');
    etcd.kill('SIGKILL');
    await exited;
  }
}

async function settings(serve: Serve, storage: string): Promise<void> {
  await using etcd = await startEtcd();
  const [endpoint = ''] = etcd.endpoints;
  await using client = new Client({ endpoints: [endpoint] });
  await client.put('config/color', 'red');
  await using proxy = await FaultProxy.start(endpoint);
  using worker = await serve(example('settings.js'), proxy.endpoint, { storage });
  const shown = async (text: string): Promise<boolean> => (await textOf(worker)) === text;
  const showing = (status: string, color: string): string =>
    JSON.stringify({ status, keys: [['config/color', color]] });
  await until('the object shows the keys', () => shown(showing('current', 'red')));
  await client.put('config/color', 'blue');
  await until('the object shows a change', () => shown(showing('current', 'blue')));
  expect('all requests share one connection', proxy.connections === 1);
  proxy.dropConnections();
  await client.put('config/color', 'green');
  await until('the watch survives a lost connection', () => shown(showing('current', 'green')));
  worker[Symbol.dispose]();
  await etcd.members[0]?.kill();
  using again = await serve(example('settings.js'), proxy.endpoint, { storage });
  expect('a new object shows the copy while etcd is down', (await textOf(again)) === showing('stored', 'green'));
}

function example(name: string): string {
  return readFileSync(join(DOCS, 'examples/edge', name), 'utf8');
}

async function textOf(worker: ServedWorker, init?: RequestInit): Promise<string> {
  return (await worker.fetch(init)).text();
}

async function until(claim: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + TIMEOUT_MS;
  while (!(await holds())) {
    expect(claim, performance.now() < deadline);
    await pause(LOOK_MS);
  }
}
