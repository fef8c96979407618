import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pack } from '../../scripts/pack.js';
import { run } from '../../src/testing/etcd/programs.js';
import { unique } from '../support/client.js';
import { emptyProject } from '../support/empty-project.js';
import { ownEtcd } from '../support/own-etcd.js';
import { installNpm } from '../support/peer-packages.js';
import { printedBy, programsOf } from '../support/program.js';

// The package has each module as an ES module and as a CommonJS module. A program that uses both has two copies of each
// class, for example if the program imports the package and one of its dependencies requires the package.

const ENTRY_POINTS = [
  ...['etcdwire', 'etcdwire/core', 'etcdwire/locks', 'etcdwire/gateway', 'etcdwire/node'],
  ...['etcdwire/recipes', 'etcdwire/testing', 'etcdwire/transport', 'etcdwire/grpc-js', 'etcdwire/opentelemetry'],
];
/** Lets `require` load only CommonJS modules, as Node.js 20.9 and other early releases do. */
const ONLY_COMMON_JS = process.allowedNodeEnvironmentFlags.has('--experimental-require-module')
  ? ['--no-experimental-require-module']
  : [];
/** The CommonJS program and the test of Jest of the page. */
const [STARTED = '', JEST_TEST = ''] = programsOf('docs/getting-started.md', 'js');
const INSTALLED = fileURLToPath(new URL('../../node_modules', import.meta.url));
const TSC = join(INSTALLED, 'typescript/bin/tsc');

let folder: string;
let tarball: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'etcdwire-package-'));
  tarball = pack(folder);
});

afterAll(() => rmSync(folder, { recursive: true }));

/** Runs a program of type commonjs, and resolves with what it prints. */
async function printed(code: string): Promise<string> {
  const program = `
    const endpoints = ${JSON.stringify(inject('endpoints'))};
    const name = ${JSON.stringify(unique('common-js'))};
    (async () => {${code}})();`;
  const project = await emptyProject(tarball, 'commonjs', { 'main.js': program });
  for (const scope of ['@grpc', '@opentelemetry'])
    symlinkSync(join(INSTALLED, scope), join(project, 'node_modules', scope));
  return run(process.execPath, [...ONLY_COMMON_JS, 'main.js'], project);
}

describe('a CommonJS program', () => {
  test('gets the exports of the ES modules from `require`', async () => {
    const code = `
      for (const entryPoint of ${JSON.stringify(ENTRY_POINTS)}) {
        const [required, imported] = [require(entryPoint), await import(entryPoint)].map(Object.keys);
        console.log(required.sort().join() === imported.filter((key) => !/^(default|module.exports)$/.test(key)).sort().join());
      }`;
    expect((await printed(code)).trim().split('\n')).toEqual(ENTRY_POINTS.map(() => 'true'));
  });

  test('locks, writes and watches with a required package', async () => {
    const code = `
      const { Client, prefix } = require('etcdwire');
      const { withLock } = require('etcdwire/locks');
      const etcd = new Client({ endpoints });
      const watch = etcd.watch(prefix(name + '/'));
      await watch.created();
      await withLock(etcd, name, { maxWaitMs: 10_000 }, () => etcd.put(name + '/a', 'b'));
      for await (const event of watch) {
        console.log(event.type, event.kv?.text());
        if (event.kv?.text() === 'b') break;
      }
      await etcd.close();`;
    expect(await printed(code)).toContain('put b\n');
  });

  test.each(['main.js', 'main.cjs'])('of docs/getting-started.md prints what its comment says, as %s', async (file) => {
    const { endpoints } = await ownEtcd();
    const program = STARTED.replace('http://127.0.0.1:2379', endpoints[0] ?? '');
    const project = await emptyProject(tarball, 'commonjs', { [file]: program });
    expect(await run(process.execPath, [...ONLY_COMMON_JS, file], project)).toBe(`${printedBy(program).join()}\n`);
  });

  test('recognizes the errors, the operations and the objects of the copy that it imports', async () => {
    const code = `
      const required = Object.assign({}, ...${JSON.stringify(ENTRY_POINTS)}.map((each) => require(each)));
      const imported = Object.assign({}, ...(await Promise.all(${JSON.stringify(ENTRY_POINTS)}.map((each) => import(each)))));
      const show = (what, value) => console.log(what, value);
      show('two copies', required.Session !== imported.Session);
      for (const [own, other] of [[required, imported], [imported, required]]) {
        const { Client } = own === required ? require('etcdwire') : await import('etcdwire');
        const etcd = new Client({ endpoints });
        const error = await etcd.get('').catch((thrown) => thrown);
        show('error', error instanceof other.EtcdError && error instanceof own.EtcdError);
        await etcd.txn({ if: [other.compare.missing(name)], then: [other.op.put(name, 'x')] });
        show('operation', (await etcd.range(other.prefix(name))).kvs.length);
        await other.updateKey(etcd, name, 'y', await etcd.get(name).then(({ modRevision }) => ({ modRevision })));
        show('value', (await etcd.get(name)).text());
        const typed = own.typed(etcd, name + '/typed/', other.json(Number));
        const copy = await other.persisted(etcd, typed, { load: async () => undefined, save: async () => {} });
        await copy.cached.close();
        const session = await own.SelfHealingSession.open(etcd);
        const service = new other.Service(etcd, name + '/service');
        await service.register(session, 'a', { address: 'a:1' });
        show('service', (await service.list()).size);
        await session.close();
        const events = [];
        const working = other.withLock(etcd, name + '/lock', async ({ signal }) => {
          await new Promise((resolve) => {
            signal.addEventListener('abort', resolve);
            void etcd.close({ drainMs: Infinity }).then(() => events.push('closed'));
          });
          events.push('action ended');
        });
        await working;
        while (events.length < 2) await new Promise(setImmediate);
        show('order', events.join());
      }
      const server = new required.MemoryEtcd();
      const { Client } = await import('etcdwire');
      const inMemory = new Client({ transport: required.memory(server) });
      await inMemory.put('a', 'b');
      show('memory', (await inMemory.get('a')).text());
      await inMemory.close();
      await new Client({ endpoints }).delete(imported.prefix(name));
      process.exit();`;
    const once = ['error true', 'operation 1', 'value y', 'service 1', 'order action ended,closed'];
    expect((await printed(code)).trim().split('\n')).toEqual(['two copies true', ...once, ...once, 'memory b']);
  });

  test('may pass a required client to an imported function, says the compiler', async () => {
    const files = {
      'client.cts': `
        import { Client, type KeyValue } from 'etcdwire';
        export const etcd = new Client({ endpoints: ['http://127.0.0.1:2379'] });
        export const read = (): Promise<KeyValue | undefined> => etcd.get('a');`,
      'main.mts': `
        import type { KeyValue } from 'etcdwire';
        import { type Held, withLock } from 'etcdwire/locks';
        import { etcd, read } from './client.cjs';
        export const locked: Promise<Held> = withLock(etcd, 'a', (held) => held);
        export const kv: Promise<KeyValue | undefined> = read();`,
      'tsconfig.json': JSON.stringify({
        compilerOptions: { strict: true, noEmit: true, module: 'nodenext', target: 'es2022', types: [] },
        files: ['client.cts', 'main.mts'],
      }),
    };
    const project = await emptyProject(tarball, 'commonjs', files);
    expect(await run(process.execPath, [TSC, '-p', project]).catch((error: Error) => error.message)).toBe('');
  });
});

describe('a bundler', () => {
  const PROGRAM = `
    const { Client } = require('etcdwire');
    const { MemoryEtcd, memory } = require('etcdwire/testing');
    const etcd = new Client({ transport: memory(new MemoryEtcd()) });
    etcd.put('a', 'b').then(() => etcd.get('a')).then((kv) => console.log(kv.text())).then(() => etcd.close());`;

  test('esbuild makes one file of a CommonJS program', async () => {
    const project = await emptyProject(tarball, 'commonjs', { 'main.js': PROGRAM });
    const [entryPoint, outfile] = [join(project, 'main.js'), join(project, 'out.js')];
    await build({ entryPoints: [entryPoint], outfile, bundle: true, platform: 'node', external: ['@grpc/grpc-js'] });
    expect(await run(process.execPath, [outfile], project)).toBe('b\n');
  });

  test('webpack makes one file of a CommonJS program', async (context) => {
    if (!inject('thorough')) return context.skip('only `npm run test:all` downloads webpack');
    const installed = await installNpm('webpack', ['webpack@5.103.0', 'webpack-cli@6.0.1']);
    if ('missing' in installed) return context.skip(installed.missing);
    const files = {
      'main.js': PROGRAM,
      'webpack.config.js': "module.exports = { target: 'node', entry: './main.js' };",
    };
    const project = await emptyProject(tarball, 'commonjs', files);
    await run('cp', ['-r', `${installed.folder}/.`, join(project, 'node_modules')]);
    const webpack = join(project, 'node_modules/webpack/bin/webpack.js');
    await run(process.execPath, [webpack, '--mode', 'production'], project);
    expect(await run(process.execPath, [join(project, 'dist/main.js')], project)).toBe('b\n');
  });
});

describe('Jest', () => {
  const PACKAGES = [
    ...[
      'jest@30.2.0',
      'ts-jest@29.4.5',
      '@swc/jest@0.2.39',
      '@swc/core@1.15.2',
      'typescript@5.9.3',
      '@types/jest@30.0.0',
    ],
    ...[
      '@nestjs/common@11.1.9',
      '@nestjs/core@11.1.9',
      '@nestjs/testing@11.1.9',
      'reflect-metadata@0.2.2',
      'rxjs@7.8.2',
    ],
  ];
  const FILES = {
    'nestjs.ts': readFileSync(
      fileURLToPath(new URL('../../docs/examples/frameworks/nestjs.ts', import.meta.url)),
      'utf8',
    ),
    'etcd.test.ts': `
      import 'reflect-metadata';
      import { Test } from '@nestjs/testing';
      import { EtcdError } from 'etcdwire';
      import { Client } from 'etcdwire';
      import { MemoryEtcd, memory } from 'etcdwire/testing';
      import { Counters, CountersModule } from './nestjs';

      test('a module of NestJS counts in etcd', async () => {
        const module = await Test.createTestingModule({ imports: [CountersModule] }).compile();
        const counters = module.get(Counters);
        const name = 'jest/' + process.pid + '/' + Math.random();
        expect(await Promise.all([counters.next(name), counters.next(name)]).then((both) => both.sort())).toEqual([1, 2]);
        await module.close();
      });

      test('a client of a MemoryEtcd rejects with an EtcdError', async () => {
        const etcd = new Client({ transport: memory(new MemoryEtcd()) });
        await etcd.put('a', Buffer.from('b'));
        expect((await etcd.get('a'))?.text()).toBe('b');
        await expect(etcd.get('')).rejects.toBeInstanceOf(EtcdError);
        await etcd.close();
      });`,
    'tsconfig.json': JSON.stringify({
      compilerOptions: {
        ...{ strict: true, module: 'commonjs', target: 'es2022', esModuleInterop: true },
        ...{ experimentalDecorators: true, emitDecoratorMetadata: true, types: ['jest', 'node'] },
      },
    }),
    'ts-jest.json': JSON.stringify({ preset: 'ts-jest', testEnvironment: 'node' }),
    'swc.json': JSON.stringify({
      transform: {
        '\\.ts$': [
          '@swc/jest',
          { jsc: { parser: { syntax: 'typescript', decorators: true }, transform: { decoratorMetadata: true } } },
        ],
      },
      testEnvironment: 'node',
    }),
  };

  test('runs the test of docs/getting-started.md without a configuration', async (context) => {
    if (!inject('thorough')) return context.skip('only `npm run test:all` downloads Jest');
    const installed = await installNpm('jest', PACKAGES);
    if ('missing' in installed) return context.skip(installed.missing);
    const project = await emptyProject(tarball, 'commonjs', { 'color.test.js': JEST_TEST });
    await run('cp', ['-r', `${installed.folder}/.`, join(project, 'node_modules')]);
    const jest = [join(project, 'node_modules/jest/bin/jest.js'), '--json'];
    const output = await run(process.execPath, [...ONLY_COMMON_JS, ...jest], project);
    expect(output).toContain('"numPassedTests":1');
  });

  test.for(['ts-jest', 'swc'])('runs the tests of a NestJS application with %s', async (transformer, context) => {
    if (!inject('thorough')) return context.skip('only `npm run test:all` downloads Jest');
    const installed = await installNpm('jest', PACKAGES);
    if ('missing' in installed) return context.skip(installed.missing);
    const project = await emptyProject(tarball, 'commonjs', FILES);
    await run('cp', ['-r', `${installed.folder}/.`, join(project, 'node_modules')]);
    const environment = ['env', `ETCDCTL_ENDPOINTS=${inject('endpoints').join()}`, process.execPath, ...ONLY_COMMON_JS];
    const jest = [join(project, 'node_modules/jest/bin/jest.js'), '--config', `${transformer}.json`, '--json'];
    const [command = '', ...args] = [...environment, ...jest];
    const output = await run(command, args, project).catch((error: Error) => error.message);
    expect(output).toContain('"numPassedTests":2');
  });
});
