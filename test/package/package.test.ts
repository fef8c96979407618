import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { installInto } from '../../scripts/pack.js';
import { fetchRuntime, RUNTIMES } from '../../scripts/runtimes/runtimes.js';
import { Client, prefix } from '../../src/index.js';
import { run } from '../../src/testing/etcd/programs.js';
import { emptyProject } from '../support/empty-project.js';
import { brokenLinks, pagesIn } from '../support/links.js';
import { ownEtcd } from '../support/own-etcd.js';
import { printedBy, programsOf } from '../support/program.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { typescriptCompiler, typescriptVersions } from '../support/typescript.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');

const ENTRY_POINTS = [
  ...['etcdwire', 'etcdwire/locks', 'etcdwire/gateway', 'etcdwire/grpc-js'],
  ...['etcdwire/node', 'etcdwire/opentelemetry', 'etcdwire/recipes', 'etcdwire/testing'],
];

interface Manifest {
  readonly exports: object;
}

let folder: string;
let tarball: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'etcdwire-consumer-'));
  tarball = installInto(folder);
  // These packages are linked rather than installed, so that the tests need no package registry.
  for (const scope of ['@grpc', '@opentelemetry', '@types']) {
    symlinkSync(join(root, 'node_modules', scope), join(folder, 'node_modules', scope));
  }
});

afterAll(() => rmSync(folder, { recursive: true }));

function installed(): string {
  return join(folder, 'node_modules/etcdwire');
}

/** Returns what a program that uses the package prints. Throws if the program does not end by itself. */
function output(type: 'module' | 'commonjs', code: string): string {
  return execFileSync(process.execPath, [`--input-type=${type}`, '--eval', code], {
    cwd: folder,
    encoding: 'utf8',
    timeout: 30_000,
  });
}

/** The results of measurements and the pictures. They are large, and a program does not need them. */
const ONLY_IN_REPOSITORY = /^docs\/(benchmarks\/|faults\/|[\w-]+\.png)/;

describe('the packed package', () => {
  test('contains the build and the documentation pages, and nothing else', () => {
    const allowed =
      /^(dist\/.*\.(c?js|d\.c?ts)|docs\/.*\.md|docs\/examples\/((embedded|frameworks|edge)\/)?\w+\.(js|ts)|(README|CHANGELOG|SECURITY)\.md|LICENSE|package\.json)$/;
    const files = readdirSync(installed(), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(installed(), join(entry.parentPath, entry.name)));
    expect(files.filter((file) => !allowed.test(file))).toEqual([]);
    const named = JSON.stringify((JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest).exports);
    const pages = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`)
      .filter((name) => !ONLY_IN_REPOSITORY.test(name));
    const required = [
      ...['README.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE', 'package.json'],
      ...[...named.matchAll(/dist\/[^"]+/g)].map(([file]) => file),
      ...pages,
    ];
    expect(required.filter((file) => !files.includes(file))).toEqual([]);
    expect(files.filter((file) => ONLY_IN_REPOSITORY.test(file))).toEqual([]);
  });

  test('has at most 450 files and 4 MB', () => {
    const sizes = readdirSync(installed(), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => statSync(join(entry.parentPath, entry.name)).size);
    expect(sizes.length).toBeLessThanOrEqual(450);
    expect(sizes.reduce((a, b) => a + b)).toBeLessThanOrEqual(4_000_000);
  });

  test('contains documentation pages whose links lead only to files in the package', () => {
    const broken = pagesIn(installed()).flatMap((page) =>
      brokenLinks(installed(), page).map((link) => `${page}: ${link}`),
    );
    expect(broken).toEqual([]);
  });

  test('has no dependency and no install script', () => {
    const manifest = JSON.parse(readFileSync(join(installed(), 'package.json'), 'utf8'));
    expect(manifest).not.toHaveProperty('dependencies');
    expect(manifest).not.toHaveProperty('optionalDependencies');
    expect(Object.keys(manifest.scripts ?? {}).filter((name) => /install|^prepare$/.test(name))).toEqual([]);
  });

  test('contains no build chunk with a generated name', () => {
    const names = readdirSync(join(installed(), 'dist'), { recursive: true, encoding: 'utf8' });
    expect(names.filter((name) => /chunk-/.test(name))).toEqual([]);
  });

  test.each(ENTRY_POINTS)('exports the classes of %s under their own names', (specifier) => {
    const code = `
      for (const [name, value] of Object.entries(await import('${specifier}')))
        if (String(value).startsWith('class') && value.name !== name) console.log(name, value.name);`;
    expect(output('module', code)).toBe('');
  });

  test('has errors whose stack names functions of the package and the line of the caller', () => {
    const caller = join(folder, 'caller.mjs');
    writeFileSync(
      caller,
      [
        "import { Client } from 'etcdwire';",
        `const etcd = new Client({ endpoints: ${JSON.stringify(inject('endpoints'))} });`,
        'async function readsTheFuture() {',
        "  await etcd.get('k', { revision: 10n ** 15n });",
        '}',
        'await readsTheFuture().catch((error) => console.log(error.stack));',
        'await etcd.close();',
      ].join('\n'),
    );
    const stack = execFileSync(process.execPath, [caller], { encoding: 'utf8' });
    expect(stack).toMatch(/at async Client\.get \(.*node_modules\/etcdwire\/dist\/[\w/-]+\.js:\d+:\d+\)/);
    expect(stack).toMatch(/at async readsTheFuture \(.*caller\.mjs:4:\d+\)/);
  });

  test.each([
    ['etcdwire', ['Client', 'EtcdError', 'compare', 'op', 'prefix', 'rawEnums']],
    ['etcdwire/core', ['CoreClient', 'EtcdError', 'compare', 'op', 'prefix']],
    ['etcdwire/locks', ['Election', 'Mutex', 'RWMutex', 'Semaphore', 'Session', 'withLock']],
    ['etcdwire/gateway', ['gateway']],
    ['etcdwire/node', ['fileStore', 'saveSnapshot']],
    ['etcdwire/opentelemetry', ['openTelemetry']],
    ['etcdwire/recipes', ['Etcd3Mutex', 'persisted', 'reconcile', 'Service', 'Slots', 'stm', 'WorkQueue']],
    ['etcdwire/testing', ['checkLock', 'checkPuts', 'checkRegister', 'checkWatch', 'GuardedResource', 'History']],
    ['etcdwire/grpc-js', ['grpcJs']],
    ['etcdwire/transport', []],
  ])('has an entry point %s that can be imported and does not keep the process alive', (specifier, names) => {
    const printed = output('module', `console.log(JSON.stringify(Object.keys(await import('${specifier}'))))`);
    expect(JSON.parse(printed)).toEqual(expect.arrayContaining(names));
  });

  test('installs no other package, and works without other packages', () => {
    const alone = temporaryFolder();
    writeFileSync(join(alone, 'package.json'), '{ "name": "consumer", "type": "module" }');
    const options = { cwd: alone, encoding: 'utf8', timeout: 60_000 } as const;
    execFileSync('npm', ['install', '--offline', '--no-audit', '--no-fund', tarball], options);
    const listed = execFileSync('npm', ['ls', '--omit=dev', '--parseable', '--all'], options);
    expect(listed.trim().split('\n')).toEqual([alone, join(alone, 'node_modules/etcdwire')]);
    const code = `
      import { Client } from 'etcdwire';
      import { withLock } from 'etcdwire/locks';
      const etcd = new Client({ endpoints: ${JSON.stringify(inject('endpoints'))} });
      await withLock(etcd, 'alone', async (held) => console.log(held.token > 0n));
      await etcd.close();`;
    expect(execFileSync(process.execPath, ['--input-type=module', '--eval', code], options)).toBe('true\n');
  });

  test('exports package.json', () => {
    const code = `import json from 'etcdwire/package.json' with { type: 'json' }; console.log(json.name)`;
    expect(output('module', code)).toBe('etcdwire\n');
  });

  test('exports no internal module', () => {
    const code = `await import('etcdwire/dist/client.js').catch((error) => console.log(error.code))`;
    expect(output('module', code)).toBe('ERR_PACKAGE_PATH_NOT_EXPORTED\n');
  });

  test('has a client that does not keep the process alive before its first call', () => {
    const code = `
      import { Client } from 'etcdwire';
      new Client({ endpoints: ['http://127.0.0.1:1'] });
      console.log('made');`;
    expect(output('module', code)).toBe('made\n');
  });

  test('has a client that keeps the process alive while a watch is open, but not while the client is idle', () => {
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

  test('has types that compile without the sources of this repository', () => {
    const code = `
      import { Client, type Interceptor, type Keyspace, type KeyValue, prefix, rawEnums, type Watch } from 'etcdwire';
      import { grpcJs } from 'etcdwire/grpc-js';
      import { type Held, Mutex, Session, withLock } from 'etcdwire/locks';
      import { saveSnapshot } from 'etcdwire/node';
      import { openTelemetry } from 'etcdwire/opentelemetry';
      import { Service, type ServiceEndpoint } from 'etcdwire/recipes';
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
      export const traced = new Client({ endpoints: ['http://127.0.0.1:2379'], interceptors: [openTelemetry()] });
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
        list: () => Promise.reject(),
        keepAliveOnce: () => Promise.reject(),
        keepAlive: (id) => ({
          id: typeof id === 'object' && 'id' in id ? id.id : 1n,
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
          state: { status: 'current' },
          catchUp: async () => {},
          changes: () => {
            throw new Error('the test double has no changes');
          },
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

describe('the declarations of the packed package', () => {
  /** A program that imports the entry points. */
  const importing = (entryPoints: readonly string[]): string => `
    import { Client } from 'etcdwire';
    ${entryPoints.map((name, index) => `import * as entry${index} from '${name}';`).join('\n')}
    import type * as core from 'etcdwire/core';
    import type * as transport from 'etcdwire/transport';
    export { ${entryPoints.map((_, index) => `entry${index}`)} };
    export type { core, transport };
    await using etcd = new Client({ endpoints: ['http://127.0.0.1:2379'] });
    export const found: string | undefined = (await etcd.get('key'))?.text();`;

  function configOf(options: object): string {
    const compilerOptions = { strict: true, target: 'es2022', lib: ['ES2022'], types: [], ...options };
    return JSON.stringify({ compilerOptions, files: ['main.ts'] });
  }

  /** Resolves with what the compiler prints, or with undefined if the npm registry does not provide the compiler. */
  async function problems(version: string, project: string): Promise<string | undefined> {
    const tsc = await typescriptCompiler(version).catch(() => undefined);
    if (tsc === undefined) return undefined;
    return run(process.execPath, [tsc, '-p', project]).catch((error: Error) => error.message);
  }

  test.for(
    typescriptVersions().flatMap((version) =>
      ['without types of a platform', 'with @types/node'].map((types) => [version, types] as const),
    ),
  )('compile with TypeScript %s %s', async ([version, types], context) => {
    const hasNode = types === 'with @types/node';
    // The declarations of @opentelemetry/api need the types of a platform.
    const entryPoints = ENTRY_POINTS.filter((name) => hasNode || name !== 'etcdwire/opentelemetry');
    const files = {
      'main.ts': importing(entryPoints),
      'tsconfig.json': configOf({ module: 'nodenext', noEmit: true, types: hasNode ? ['node'] : [] }),
    };
    const others = hasNode ? ['@opentelemetry/api', '@types/node', 'undici-types'] : [];
    const printed = await problems(version, await emptyProject(tarball, 'module', files, others));
    if (printed === undefined) return context.skip(`TypeScript ${version} cannot be downloaded`);
    expect(printed).toBe('');
  });

  test('compile with TypeScript 5.2 and the module system `nodenext` in a package of type commonjs', async (context) => {
    const files = {
      'main.ts':
        "import { Client } from 'etcdwire';\nimport { Mutex } from 'etcdwire/locks';\nexport { Client, Mutex };",
      'tsconfig.json': configOf({ module: 'nodenext', noEmit: true }),
    };
    const printed = await problems('5.2.2', await emptyProject(tarball, 'commonjs', files));
    if (printed === undefined) return context.skip('TypeScript 5.2.2 cannot be downloaded');
    expect(printed).toBe('');
  });

  test('compile with the options that `tsc --init` of TypeScript 5.2 writes, in a package of type commonjs', async (context) => {
    const files = {
      'main.ts':
        "import { Client } from 'etcdwire';\nimport { Mutex } from 'etcdwire/locks';\nexport { Client, Mutex };",
      'tsconfig.json': configOf({
        module: 'commonjs',
        target: 'es2016',
        lib: undefined,
        esModuleInterop: true,
        skipLibCheck: true,
      }),
    };
    const project = await emptyProject(tarball, 'commonjs', files);
    const printed = await problems('5.2.2', project);
    if (printed === undefined) return context.skip('TypeScript 5.2.2 cannot be downloaded');
    expect(printed).toBe('');
    const code = "console.log(Object.keys(require('./main.js')))";
    expect(await run(process.execPath, ['--eval', code], project)).toBe("[ 'Client', 'Mutex' ]\n");
  });
});

describe('the programs of README.md in a project where only the packed package is installed', () => {
  const TSX = join(root, 'node_modules/tsx/dist/cli.mjs');
  const programs = programsOf('README.md');
  const [program = ''] = programs;

  /** Runs the program with a new server, and resolves with what it prints. */
  async function printed(type: 'commonjs' | 'module', file: string, command: readonly string[]): Promise<string> {
    const { endpoints } = await ownEtcd();
    const files = { [file]: program.replace('http://127.0.0.1:2379', endpoints[0] ?? '') };
    const [name = '', ...args] = command;
    return run(name, [...args, file], await emptyProject(tarball, type, files));
  }

  test.each(['commonjs', 'module'] as const)(
    'run with tsx and with node when the type of the project is %s',
    async (type) => {
      const { endpoints } = await ownEtcd();
      const names = programs.map((_, index) => `program-${index}`);
      const text = (index: number): string =>
        (programs[index] ?? '').replace('http://127.0.0.1:2379', endpoints[0] ?? '');
      const files = Object.fromEntries(
        names.flatMap((name, index) =>
          ['ts', 'mjs'].map((extension) => [`${name}.${extension}`, text(index)] as const),
        ),
      );
      const project = await emptyProject(tarball, type, files);
      await using etcd = new Client({ endpoints });
      for (const args of [[TSX, '.ts'], ['.mjs']]) {
        await etcd.delete(prefix(''));
        const [extension = ''] = args.slice(-1);
        for (const [index, name] of names.entries())
          expect(await run(process.execPath, [...args.slice(0, -1), name + extension], project)).toBe(
            `${printedBy(text(index)).join('\n')}\n`,
          );
      }
    },
  );

  test.for(RUNTIMES.filter(({ args }) => args !== undefined))('run with $name $version', async (runtime, context) => {
    if (!inject('thorough')) return context.skip('only the mode `all` downloads runtimes');
    const binary = await fetchRuntime(runtime);
    const isNode = runtime.name === 'Node.js';
    const args = isNode ? ['--experimental-strip-types'] : (runtime.args ?? []);
    // In a package of type commonjs, Node.js treats only files named .mts as modules.
    const file = isNode ? 'main.mts' : 'main.ts';
    expect(await printed('commonjs', file, [binary, ...args])).toBe('blue\n');
  });

  test('print what to do, in at most eight lines after the failing line of code, when no etcd answers', async () => {
    const files = { 'main.ts': program.replace('2379', '1') };
    const cwd = await emptyProject(tarball, 'commonjs', files);
    const { stdout, stderr, status } = spawnSync(process.execPath, [TSX, 'main.ts'], { cwd, encoding: 'utf8' });
    expect([stdout, status]).toEqual(['', 1]);
    const [place = '', code, , ...lines] = stderr.split('\n').filter((line) => line.trim() !== '');
    const main = `${join(cwd, 'main.ts')}:4`;
    // In about one of ten runs, Node.js names the place where it runs promise callbacks instead, and adds its own frames.
    const isInside = place.startsWith('node:internal/process/task_queues:');
    expect(isInside ? main : place).toBe(main);
    expect(code).toContain(isInside ? 'runMicrotasks()' : 'await connect(');
    expect(stderr).toContain(`at async main (${main}:`);
    expect(lines[0]).toMatch(
      /^EtcdError: cannot connect to http:\/\/127\.0\.0\.1:1: connect ECONNREFUSED.*; no program listens there: start etcd/,
    );
    expect(lines.pop()).toMatch(/^Node\.js v/);
    expect(lines.filter((line) => !/^ +at .*\(node:internal\//.test(line)).length).toBeLessThanOrEqual(8);
  });
});
