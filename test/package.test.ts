import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { installInto } from '../scripts/pack.js';
import { temporaryFolder } from './support/temporary-folder.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
const canRequireModules = major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19);

let folder: string;
let tarball: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'etcdwire-consumer-'));
  tarball = installInto(folder);
  // Linked instead of installed, so that the tests need no registry.
  for (const scope of ['@grpc', '@types']) {
    symlinkSync(join(root, 'node_modules', scope), join(folder, 'node_modules', scope));
  }
});

afterAll(() => rmSync(folder, { recursive: true }));

/** The output of a program that uses the package. Throws if the program does not end by itself. */
function output(type: 'module' | 'commonjs', code: string): string {
  return execFileSync(process.execPath, [`--input-type=${type}`, '--eval', code], {
    cwd: folder,
    encoding: 'utf8',
    timeout: 30_000,
  });
}

describe('the packed package', () => {
  test('contains the build and the documents, and nothing else', () => {
    const installed = join(folder, 'node_modules/etcdwire');
    const files = readdirSync(installed, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const outside = files.filter((entry) => !entry.parentPath.startsWith(join(installed, 'dist')));
    const allowed = ['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json'];
    expect(outside.map((entry) => entry.name).filter((name) => !allowed.includes(name))).toEqual([]);
    expect(
      files.map((entry) => entry.name).filter((name) => !allowed.includes(name) && !/\.(js|d\.ts)$/.test(name)),
    ).toEqual([]);
  });

  test.each([
    ['etcdwire', ['Client', 'EtcdError', 'compare', 'op', 'prefix', 'rawEnums']],
    ['etcdwire/concurrency', ['Election', 'Mutex', 'RWMutex', 'Semaphore', 'Session', 'stm', 'withLock']],
    ['etcdwire/discovery', ['Service']],
    ['etcdwire/gateway', ['gateway']],
    ['etcdwire/node', ['saveSnapshot']],
    ['etcdwire/testing', ['checkLock', 'checkPuts', 'checkRegister', 'checkWatch', 'GuardedResource', 'History']],
    ['etcdwire/grpc-js', ['grpcJs']],
    ['etcdwire/transport', []],
  ])('exports %s, and an import of it lets the process end', (specifier, names) => {
    const printed = output('module', `console.log(JSON.stringify(Object.keys(await import('${specifier}'))))`);
    expect(JSON.parse(printed)).toEqual(expect.arrayContaining(names));
  });

  test('contains the command-line program, which runs alone', () => {
    const [endpoint = ''] = inject('endpoints');
    const alone = temporaryFolder();
    const program = join(alone, 'etcdwire.mjs');
    copyFileSync(join(folder, 'node_modules/etcdwire/dist/cli.js'), program);
    const args = [program, 'status', '--endpoints', endpoint];
    const [status] = JSON.parse(execFileSync(process.execPath, args, { cwd: alone, encoding: 'utf8' }));
    expect(status).toMatchObject({ endpoint, status: { version: inject('etcdVersion') } });
  });

  test('works when it is installed without any dependency', () => {
    const alone = temporaryFolder();
    writeFileSync(join(alone, 'package.json'), '{ "name": "consumer", "type": "module" }');
    const options = { cwd: alone, encoding: 'utf8', timeout: 60_000 } as const;
    execFileSync('npm', ['install', '--offline', '--no-audit', '--no-fund', tarball], options);
    const listed = execFileSync('npm', ['ls', '--omit=dev', '--parseable', '--all'], options);
    expect(listed.trim().split('\n')).toEqual([alone, join(alone, 'node_modules/etcdwire')]);
    const code = `
      import { Client } from 'etcdwire';
      import { withLock } from 'etcdwire/concurrency';
      const etcd = new Client({ endpoints: ${JSON.stringify(inject('endpoints'))} });
      await withLock(etcd, 'alone', async (held) => console.log(held.token > 0n));
      await etcd.close();`;
    expect(execFileSync(process.execPath, ['--input-type=module', '--eval', code], options)).toBe('true\n');
  });

  test('exports package.json', () => {
    const code = `import json from 'etcdwire/package.json' with { type: 'json' }; console.log(json.name)`;
    expect(output('module', code)).toBe('etcdwire\n');
  });

  test('exports no other file', () => {
    const code = `await import('etcdwire/dist/client.js').catch((error) => console.log(error.code))`;
    expect(output('module', code)).toBe('ERR_PACKAGE_PATH_NOT_EXPORTED\n');
  });

  test('gives require and import the same module when Node.js can require ES modules', (context) => {
    if (!canRequireModules) return context.skip('this Node.js cannot require ES modules');
    const code = `
      const { Client } = require('etcdwire');
      import('etcdwire').then((imported) => console.log(typeof Client, imported.Client === Client));`;
    expect(output('commonjs', code)).toBe('function true\n');
  });

  test('lets the process end when a client was created and not used', () => {
    const code = `
      import { Client } from 'etcdwire';
      new Client({ endpoints: ['http://127.0.0.1:1'] });
      console.log('made');`;
    expect(output('module', code)).toBe('made\n');
  });

  test('lets the process end when a client is idle, and not while it watches', () => {
    const endpoints = JSON.stringify(inject('endpoints'));
    const code = `
      import { Client } from 'etcdwire';
      const etcd = new Client({ endpoints: ${endpoints} });
      await etcd.get('a');
      const watch = etcd.watch('a');
      await watch.created();
      setTimeout(() => console.log('held'), 200).unref();
      setTimeout(() => watch.close(), 300).unref();`;
    expect(output('module', code)).toBe('held\n');
  });

  test('has types that compile in a strict program', () => {
    const code = `
      import { Client, type Interceptor, type Keyspace, type KeyValue, prefix, rawEnums, type Watch } from 'etcdwire';
      import { type Held, Mutex, Session, withLock } from 'etcdwire/concurrency';
      import { Service, type ServiceEndpoint } from 'etcdwire/discovery';
      import { grpcJs } from 'etcdwire/grpc-js';
      import { saveSnapshot } from 'etcdwire/node';
      import { checkPuts, History, type PutCall } from 'etcdwire/testing';
      import type { Transport, UnaryCall } from 'etcdwire/transport';

      export const client: Client = new Client({ endpoints: ['http://127.0.0.1:2379'], transport: grpcJs() });
      export const found: Promise<KeyValue | undefined> = client.get('key');
      export const held = async (session: Session): Promise<Held> => new Mutex(session, 'name').lock();
      export const services: Promise<ReadonlyMap<string, ServiceEndpoint>> = new Service(client.namespace('a/'), 's').list();
      export const saved: Promise<number> = saveSnapshot(client, 'http://127.0.0.1:2379', 'file');
      export const violations = checkPuts(new History<PutCall, unknown>().operations, []).map(({ rule }) => rule);
      export const others = [prefix('a'), withLock];
      export const sorted = client.raw.kv.range({ sortOrder: rawEnums.SortOrder.DESCEND });
      export const noted = <Q, R>(call: UnaryCall<Q, R>, inner: Transport): Promise<R> => inner.unary(call);
      export const interceptor: Interceptor = { unary: (call, next) => next({ ...call, timeoutMs: 5 }) };
      const watch: Watch = {
        created: async () => 1n,
        async *batches() {},
        requestProgress() {},
        async close() {},
        async *[Symbol.asyncIterator]() {},
        async [Symbol.asyncDispose]() {},
      };
      const lease: Keyspace['lease'] = {
        grant: () => Promise.reject(),
        revoke: () => Promise.reject(),
        timeToLive: () => Promise.reject(),
        leases: () => Promise.reject(),
        keepAliveOnce: () => Promise.reject(),
        keepAlive: (id) => ({
          id: typeof id === 'bigint' ? id : id.id,
          signal: AbortSignal.abort(),
          ttl: undefined,
          valid: () => false,
          renewed: async () => {},
          remainingMs: () => 0,
          async close() {},
          async [Symbol.asyncDispose]() {},
        }),
      };
      // A test double implements the interface without a cast.
      export const double: Keyspace = {
        lease,
        get: async () => undefined,
        range: () => Promise.reject(),
        async *scan() {},
        put: () => Promise.reject(),
        delete: () => Promise.reject(),
        txn: () => Promise.reject(),
        watch: () => watch,
        mirror: () => ({ async *[Symbol.asyncIterator]() {} }),
        cachedRange: async () => ({
          revision: 1n,
          size: 0,
          get: () => undefined,
          range: () => [],
          waitForRevision: async () => {},
          async close() {},
          async [Symbol.asyncDispose]() {},
        }),
        namespace: () => double,
        async close() {},
        async [Symbol.asyncDispose]() {},
      };
      // @ts-expect-error: compact concerns the whole store, so a namespace does not have it.
      client.namespace('a/').compact;
      // @ts-expect-error: a KeyValue has no such field.
      found.then((entry) => entry?.noSuchField);`;
    writeFileSync(join(folder, 'consumer.mts'), code);
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--types', 'node'];
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    try {
      execFileSync(process.execPath, [tsc, ...options, 'consumer.mts'], { cwd: folder, encoding: 'utf8' });
    } catch (error) {
      expect.fail((error as { stdout: string }).stdout);
    }
  });
});
