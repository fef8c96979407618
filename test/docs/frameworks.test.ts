import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pack } from '../../scripts/pack.js';
import { freePorts } from '../../src/testing/etcd/free-ports.js';
import { run } from '../../src/testing/etcd/programs.js';
import type { EtcdMember } from '../../src/testing/index.js';
import { type Child, startChild } from '../support/child.js';
import { openClient } from '../support/client.js';
import { emptyProject } from '../support/empty-project.js';
import { ownEtcd } from '../support/own-etcd.js';
import { installNpm } from '../support/peer-packages.js';
import { programsOf } from '../support/program.js';

// Runs the programs of docs/examples/frameworks, which docs/frameworks.md shows, with the packed package and the framework
// from the npm registry, and injects faults. test/docs/programs.test.ts runs docs/examples/function.ts.

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');
/** With these packages, npm installs Express 5, which @nestjs/platform-express needs. */
const PACKAGES = [
  ...['fastify@5.6.2', '@nestjs/common@11.1.9', '@nestjs/core@11.1.9', '@nestjs/platform-express@11.1.9'],
  ...['reflect-metadata@0.2.2', 'rxjs@7.8.2'],
];
/** The maximum number of lines of each program. */
const MAX_LINES = { express: 22, fastify: 16, nestjs: 28 } as const;
type Name = keyof typeof MAX_LINES;

let folder: string;
let tarball: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'etcdwire-frameworks-'));
  tarball = await pack(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Bundles `main.ts` of a project, and returns the path of the bundle. */
async function bundled(project: string): Promise<string> {
  const outfile = join(project, 'main.mjs');
  await build({
    entryPoints: [join(project, 'main.ts')],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    packages: 'external',
    tsconfigRaw: { compilerOptions: { experimentalDecorators: true } },
    logLevel: 'warning',
  });
  return outfile;
}

/** Returns a function that starts the program in the background, or the reason why the framework is missing. */
async function programOf(name: Name): Promise<((endpoint: string, port: number) => Child) | string> {
  if (!inject('thorough')) return 'only `npm run test:all` downloads the frameworks';
  const installed = await installNpm('frameworks', PACKAGES);
  if ('missing' in installed) return installed.missing;
  const text = readFileSync(join(ROOT, `docs/examples/frameworks/${name}.ts`), 'utf8');
  const start = name === 'nestjs' ? "import 'reflect-metadata';\nimport { main } from './program.js';\nmain();" : text;
  const project = await emptyProject(tarball, 'module', { 'program.ts': text, 'main.ts': start });
  await run('cp', ['-r', `${installed.folder}/.`, join(project, 'node_modules')]);
  const bundle = await bundled(project);
  return (endpoint, port) =>
    startChild(process.execPath, [bundle], {
      environment: { ETCDCTL_ENDPOINTS: endpoint, PORT: `${port}` },
    });
}

/** Resolves with the status and the body of an answer. The status is 0 if nothing answers. */
async function ask(port: number, path: string, init?: RequestInit): Promise<readonly [number, string]> {
  const response = await fetch(`http://127.0.0.1:${port}/${path}`, init).catch(() => undefined);
  return [response?.status ?? 0, (await response?.text().catch(() => '')) ?? ''];
}

const json = (body: unknown): RequestInit => ({
  method: 'PUT',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});

describe('with the framework from the npm registry', () => {
  test('an Express server lists users in pages, is ready only while etcd answers, and answers running requests before it ends', async (context) => {
    const start = await programOf('express');
    if (typeof start === 'string') return context.skip(start);
    const { endpoints, members } = await ownEtcd();
    const [member] = members as readonly [EtcdMember];
    const [port = 0] = await freePorts(1);
    const server = start(endpoints[0] as string, port);
    await expect.poll(async () => (await ask(port, 'ready'))[0]).toBe(200);
    expect(await ask(port, 'users')).toEqual([200, '{"users":[]}']);
    const names = Array.from({ length: 120 }, (_, index) => `user-${String(index).padStart(3, '0')}`);
    const [status, text] =
      (await Promise.all(names.map((name) => ask(port, `users/${name}`, json({ name })))))[0] ?? [];
    expect([status, JSON.parse(text ?? '')]).toMatchObject([
      200,
      { header: { revision: expect.stringMatching(/^\d+$/) } },
    ]);
    const seen: string[] = [];
    for (let after: string | undefined = ''; after !== undefined; ) {
      const page: { users: { key: string; value: string }[]; after?: string } = JSON.parse(
        (await ask(port, `users?after=${after}`))[1],
      );
      seen.push(...page.users.map(({ key }) => key.replace('users/', '')));
      after = page.after;
    }
    expect(seen).toEqual(names);
    await member.kill();
    await expect.poll(async () => (await ask(port, 'ready'))[0]).toBe(503);
    const running = ask(port, 'users/late', json({ late: true }));
    await new Promise((resolve) => setTimeout(resolve, 200));
    server.process.kill('SIGTERM');
    await member.start();
    expect((await running)[0]).toBe(200);
    expect(await server.exited).toBe(0);
  });

  test('a Fastify server writes results as JSON, is ready only while etcd answers, and ends without a failed request', async (context) => {
    const start = await programOf('fastify');
    if (typeof start === 'string') return context.skip(start);
    const { endpoints, members } = await ownEtcd();
    const [member] = members as readonly [EtcdMember];
    const [port = 0, other = 0] = await freePorts(2);
    const first = start(endpoints[0] as string, port);
    await expect.poll(async () => (await ask(port, 'ready'))[0]).toBe(200);
    expect(await ask(port, 'keys/a')).toEqual([404, '']);
    expect((await ask(port, 'keys/a', json({ size: 1 })))[0]).toBe(200);
    const [status, text] = await ask(port, 'keys/a');
    expect([status, JSON.parse(text)]).toMatchObject([
      200,
      { key: 'a', value: '{"size":1}', version: '1', lease: '0' },
    ]);
    await member.kill();
    await expect.poll(async () => (await ask(port, 'ready'))[0]).toBe(503);
    const during = ask(port, 'keys/b', json(2));
    await member.start();
    expect((await during)[0]).toBe(200);
    await expect.poll(async () => (await ask(port, 'ready'))[0]).toBe(200);
    first.process.kill('SIGSTOP');
    const frozen = ask(port, 'keys/c', json(3));
    first.process.kill('SIGCONT');
    expect((await frozen)[0]).toBe(200);
    const last = Promise.all(Array.from({ length: 20 }, (_, index) => ask(port, `keys/${index}`, json(index))));
    first.process.kill('SIGTERM');
    expect(await first.exited).toBe(0);
    for (const [each] of await last) expect([0, 200, 503]).toContain(each);
    const second = start(endpoints[0] as string, other);
    await expect.poll(async () => (await ask(other, 'keys/c'))[0]).toBe(200);
    second.process.kill('SIGKILL');
    await second.exited;
  });

  test('an application of NestJS counts each request once although its processes are killed, suspended and asked to stop', async (context) => {
    const start = await programOf('nestjs');
    if (typeof start === 'string') return context.skip(start);
    const { endpoints, members } = await ownEtcd();
    const [member] = members as readonly [EtcdMember];
    const [endpoint = ''] = endpoints;
    const etcd = openClient({ endpoints });
    const ports = await freePorts(3);
    const seen: number[] = [];
    const next = async (index: number): Promise<number> => {
      const [status, text] = await ask(ports[index] as number, 'next/visits');
      if (status === 200) seen.push(Number(text));
      return status;
    };
    const [first, second] = [start(endpoint, ports[0] as number), start(endpoint, ports[1] as number)];
    for (const index of [0, 1]) await expect.poll(() => next(index)).toBe(200);
    await Promise.all(Array.from({ length: 10 }, (_, index) => next(index % 2)));
    first.process.kill('SIGKILL');
    await member.kill();
    await member.start();
    for (const id of (await etcd.lease.list()).ids) await etcd.lease.revoke(id);
    await expect.poll(() => next(1), { timeout: 20_000 }).toBe(200);
    second.process.kill('SIGSTOP');
    const frozen = next(1);
    second.process.kill('SIGCONT');
    await frozen;
    const third = start(endpoint, ports[2] as number);
    await expect.poll(() => next(2), { timeout: 20_000 }).toBe(200);
    const running = next(1);
    second.process.kill('SIGTERM');
    await Promise.all([running, second.exited]);
    third.process.kill('SIGTERM');
    await third.exited;
    expect(new Set(seen).size).toBe(seen.length);
    expect((await etcd.lease.list()).ids).toEqual([]);
  });
});

describe('docs/frameworks.md', () => {
  const programs = programsOf('docs/frameworks.md');

  test('shows the programs of docs/examples without a difference', () => {
    const files = ['frameworks/express', 'frameworks/fastify', 'frameworks/nestjs', 'function'];
    for (const file of files) expect(programs).toContain(readFileSync(join(ROOT, `docs/examples/${file}.ts`), 'utf8'));
    expect(programs).toHaveLength(files.length + 2);
  });

  test('shows a route of Next that reads and writes a key, and whose client outlives a reload of its module', async () => {
    const { endpoints } = await ownEtcd();
    const files = programs.flatMap((program) => {
      const [, path] = /^\/\/ (\S+\.ts)\n/.exec(program) ?? [];
      return path === undefined ? [] : [[path, program] as const];
    });
    expect(files.map(([path]) => path)).toEqual(['lib/etcd.ts', 'app/api/pages/[key]/route.ts']);
    const main = `
      import { GET, PUT } from './app/api/pages/[key]/route';
      import { etcd } from './lib/etcd';
      const context = { params: Promise.resolve({ key: 'home' }) };
      const url = 'http://localhost/api/pages/home';
      console.log((await GET(new Request(url), context)).status);
      console.log((await PUT(new Request(url, { method: 'PUT', body: 'hello' }), context)).status);
      console.log(((await (await GET(new Request(url), context)).json()) as { value: string }).value);
      console.log(((globalThis as unknown as { etcd?: unknown }).etcd === etcd));
      await etcd.close();`;
    const project = await emptyProject(tarball, 'module', { 'main.ts': main });
    for (const [path, program] of files) {
      mkdirSync(join(project, dirname(path)), { recursive: true });
      writeFileSync(join(project, path), program);
    }
    const child = startChild(process.execPath, [await bundled(project)], {
      environment: { ETCDCTL_ENDPOINTS: endpoints.join() },
    });
    expect(await child.rest()).toEqual(['404', '200', 'hello', 'true']);
  });
});

test.each(Object.entries(MAX_LINES))('docs/examples/frameworks/%s.ts has at most %i lines', (name, maxLines) => {
  const text = readFileSync(join(ROOT, `docs/examples/frameworks/${name}.ts`), 'utf8');
  expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(maxLines);
});
