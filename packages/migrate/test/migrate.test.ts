import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { buildMigrate } from '../../../scripts/build/packages.js';
import { startChild } from '../../../test/support/child.js';
import { unique } from '../../../test/support/client.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { importingSources } from '../../../test/support/program.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';
import { typescriptCompiler } from '../../../test/support/typescript.js';
import type { TypeScript } from '../src/parser.js';
import { IMPORT, migrate, project } from './project.js';

/** The ID of the user `nobody`. */
const NOBODY = 65_534;

/** Runs the function as a user who may not write every file, if the tests run as root. */
function asOtherUser<T>(run: () => T): T {
  if (process.geteuid?.() !== 0) return run();
  process.seteuid?.(NOBODY);
  try {
    return run();
  } finally {
    process.seteuid?.(0);
  }
}

const IMPORTED = "import { Client } from 'etcdwire';\n\nconst client = new Client();\n";

/** A program with all calls that the program rewrites. It prints the same lines before and after. */
const PROGRAM = `import { Etcd3 } from 'etcd3';

class Store {
  private readonly client = new Etcd3({ hosts: 'http://127.0.0.1:2379' });
  constructor(private readonly own: Etcd3) {}

  async set(key: string, value: string | number) {
    await this.client.put(key).value(value);
    await this.own.put(\`\${key}-copy\`).value(value);
  }
  async get(key: string) {
    return this.client.get(key);
  }
  remove(keys: string[]) {
    return Promise.all(keys.map((key) => this.client.delete().key(key))).then(() => undefined);
  }
  close() {
    this.client.close();
    this.own.close();
  }
}

const prefix = 'user/';
const hosts = ['http://127.0.0.1:2379'];
const client = new Etcd3({ hosts });
const app = client.namespace('app/');

async function main() {
  await client.put('n').value(42);
  await client.put('list').value(JSON.stringify([1, 2]));
  console.log(await client.get('n').number(), await client.get('missing').number());
  console.log(await client.get('list').json(), await client.get('missing').json());
  console.log((await client.get('n').buffer())?.toString('hex'), await client.get('missing').buffer());
  console.log(await client.get('missing').exists(), (await client.get('n').string())?.length);
  console.log(await client.get('n'), await client.get('missing').string());
  await Promise.all(['a', 'b', 'c'].map((name) => client.put(\`\${prefix}\${name}\`).value(name.toUpperCase())));
  console.log(await client.getAll().prefix(prefix).strings());
  console.log(await client.getAll().prefix(prefix).keys());
  console.log(await client.getAll().prefix(prefix).count(), await client.getAll().prefix(prefix));
  console.log(await client.getAll().prefix(prefix).sort('Key', 'Descend').limit(2).keys());
  console.log(await client.getAll().inRange({ start: 'user/b', end: 'user/c' }).keys());
  console.log((await client.delete().prefix(prefix)).deleted);
  console.log(await client.delete().key('list').then((result) => result.deleted === '1'));
  await client.put('state').value('new');
  const result = await client
    .if('state', 'Value', '==', 'new')
    .and('state', 'Version', '>', 0)
    .then(client.put('state').value('done'), client.delete().key('n'))
    .else(client.get('state'))
    .commit();
  console.log(result.succeeded, await client.get('state').string(), await client.get('n').exists());
  const lease = client.lease(10);
  await lease.put('alive').value('yes');
  console.log(await client.get('alive').string());
  await lease.revoke();
  console.log(await client.get('alive').string());
  const watcher = await client.watch().prefix('job/').create();
  await watcher.cancel();
  console.log(await client.lock('jobs').ttl(5).do(async () => 'locked'));
  await app.put('color').value('red');
  console.log(await client.get('app/color').string(), await client.namespace('app/').get('color').string());
  const store = new Store(new Etcd3({ hosts: ['http://127.0.0.1:2379'] }));
  await store.set('x', 1);
  console.log(await store.get('x'), await store.get('x-copy'));
  await store.remove(['x', 'x-copy']);
  store.close();
  await client.delete().all();
  console.log(await client.getAll().keys());
  client.close();
}

void main();
`;

test('`etcdwire-migrate` rewrites a program so that it prints the same lines with etcdwire as with etcd3', async () => {
  const { migrated, folder } = project();
  const text = migrated(PROGRAM);
  expect(text).not.toContain("from 'etcd3'");
  expect(migrate([folder, '--json']).stdout).toMatch(/"files":\[\]/);
  const marks = text.split('\n').filter((line) => line.includes('// etcdwire: '));
  expect(marks).toEqual([expect.stringContaining('withLock waits until the lock is free')]);
  const [theirs, ours] = await Promise.all([printed(PROGRAM), printed(importingSources(text))]);
  expect(theirs.length).toBeGreaterThan(15);
  expect(ours).toEqual(theirs);
});

/** Runs a program against a server of its own, and resolves with the lines that it prints. */
async function printed(text: string): Promise<readonly string[]> {
  const { endpoints } = await ownEtcd();
  const folder = new URL(`../../../.cache/${unique('migrated')}/`, import.meta.url).pathname;
  mkdirSync(folder, { recursive: true });
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'program.mts'), text.replaceAll('http://127.0.0.1:2379', endpoints[0] as string));
  const child = startChild(process.execPath, ['--import', 'tsx', join(folder, 'program.mts')]);
  const lines = await child.rest();
  expect(await child.exited).toBe(0);
  return lines;
}

describe('`etcdwire-migrate`', () => {
  test.each([
    [
      "const client = new Etcd3({ hosts: ['https://a:2379', 'b:2379'], credentials: { rootCertificate: ca, privateKey: key, certChain } });",
      "const client = new Client({ endpoints: ['https://a:2379', 'https://b:2379'], tls: { ca: ca, key: key, cert: certChain } });",
    ],
    [
      "const client = new Etcd3({ hosts: 'http://a:2379', auth: { username: 'u', password } });",
      "const client = new Client({ endpoints: ['http://a:2379'], auth: { username: 'u', password, allowPlaintext: true } });",
    ],
    [
      'const client = new Etcd3({ hosts: process.env.HOSTS });',
      'const client = new Client({ endpoints: [process.env.HOSTS].flat() });',
    ],
  ])('rewrites %s', async (before, after) => {
    const { migrated } = project();
    expect(migrated(`import { Etcd3 } from 'etcd3';\n${before}\n`)).toBe(
      `import { Client } from 'etcdwire';\n${after}\n`,
    );
  });

  test('rewrites options on several lines, and keeps their comments', async () => {
    const { migrated } = project();
    const text = "import { Etcd3 } from 'etcd3';\nnew Etcd3({\n  // The members.\n  hosts: ['a:1'],\n});\n";
    expect(migrated(text)).toBe(
      "import { Client } from 'etcdwire';\nnew Client({\n  // The members.\n  endpoints: ['http://a:1'],\n});\n",
    );
  });

  test('keeps a key with characters such as `$&` that are special in a replacement string', async () => {
    const { migrated } = project();
    const key = "`$&$1$'$$`";
    const text = migrated(`${IMPORT}console.log(await client.get(${key}).string());\n`);
    expect(text).toContain(`console.log((await client.get(${key}))?.text() ?? null);`);
  });

  test('does not import `prefix` for a call that it marks instead of rewriting', async () => {
    const { migrated } = project();
    const text = migrated(`${IMPORT}void client.getAll().prefix('a').revision('7').keys();\n`);
    expect(text).toMatch(/^import \{ Client \} from 'etcdwire';/);
    expect(text).toContain('use range(prefix(…)');
  });

  test('imports a name when the line that uses it ends with a comment of `etcdwire-migrate`', async () => {
    const { migrated } = project();
    const text = migrated(`${IMPORT}export async function run() { const l = client.lease(10); l.on('lost', run); }\n`);
    expect(text).toContain('const l = await Session.open(client, { ttl: 10 }); // etcdwire: ');
    expect(text).toMatch(/^import \{ Client \} from 'etcdwire';\nimport \{ Session \} from 'etcdwire\/locks';/);
  });

  test('rewrites an import of types as an import of types', async () => {
    const { migrated } = project();
    const text =
      "import type { Etcd3 } from 'etcd3';\nexport const all = (c: Etcd3) => c.getAll().prefix('a').keys();\n";
    expect(migrated(text)).toMatch(/^import \{ type Client, prefix \} from 'etcdwire';\n/);
    expect(migrated("import type { Etcd3 } from 'etcd3';\nexport type E = Etcd3;\n")).toMatch(
      /^import \{ type Client \}/,
    );
  });

  test('rewrites modules that load etcd3 with `require` or `import *`, whatever name they give it', async () => {
    const { migrated } = project();
    expect(migrated("const { Etcd3: E } = require('etcd3');\nexports.x = 1;\nvoid new E();\n", 'a.js')).toBe(
      "const { Client } = require('etcdwire');\nexports.x = 1;\nvoid new Client();\n",
    );
    expect(
      migrated(
        '"use strict";\nconst etcd3_1 = require("etcd3");\nconst c = new etcd3_1.Etcd3();\nc.close();\n',
        'b.cjs',
      ),
    ).toBe('"use strict";\nconst { Client } = require(\'etcdwire\');\nconst c = new Client();\nc.close();\n');
    expect(migrated("import * as etcd from 'etcd3';\nconst c = new etcd.Etcd3();\n", 'c.mts')).toBe(
      "import { Client } from 'etcdwire';\nconst c = new Client();\n",
    );
  });

  test('imports names under an alias when the file already uses these names', async () => {
    const { migrated } = project();
    const text = migrated(
      `${IMPORT}class Client {}\nconst prefix = 'a/';\nvoid client.getAll().prefix(prefix).count();\n`,
    );
    expect(text).toContain("import { Client as EtcdClient, prefix as etcdPrefix } from 'etcdwire';");
    expect(text).toContain('client.range(etcdPrefix(prefix), { countOnly: true })');
  });
});

describe('a comment of `etcdwire-migrate`', () => {
  test.each([
    ["client.put('a').value('b');", /when something awaits|put\(key, value/],
    ["export const get = () => client.get('a');", /use get\(key, options\)/],
    ["const lock = client.lock('a').acquire();", /tryLock\(\).*Etcd3Mutex/],
    ["client.election('a').campaign('me');", /new Election\(session, 'election\/NAME'\)/],
    ["client.watch().key('a').create().then((watcher) => watcher.on('put', console.log));", /for await/],
    ['const lease = client.lease(5, { autoKeepAlive: false });', /lease\.grant/],
    ["void client.stm({ prefetch: ['a'] }).transact(async () => {});", /stm\(client/],
    ['void client.stm().transact((tx) => tx.getAll().keys());', /tx\.range/],
    ["void client.stm().transact((tx) => tx.put('a').value('b').then(() => 1));", /tx\.put\(key, value\)/],
    ['console.log(client.getRoles());', /auth\.roleList/],
    ['void client.maintenance.status();', /raw\.maintenance/],
    ["void client.namespace('n').if('a', 'Value', '==', 'b').then(client.put('c').value('d')).commit();", /use txn\(/],
    ['declare const store: (etcd: unknown) => void;\nstore(client);', /other code gets this client/],
    ["void client.put('a').value(/* why */ 'b').exec();", /use put\(key, value/],
    ["function run() { const lease = client.lease(5); return lease.put('a').value('b'); }", /Session\.open/],
    ['client.mock({ exec: async () => ({}) });', /MemoryEtcd/],
    ["const saved = { async *all() { yield client.put('a').value(1); } };", /etcdwire at once/],
    ["void client.get('a')?.string();", /use get\(key, options\)/],
    ["void client.delete().key('a') /* now */ .exec();", /delete\(key\)/],
    ["void client.put('a').value(compute());\ndeclare const compute: () => unknown;", /use put\(key, value/],
    [
      "const other = new Etcd3({ ...options, hosts: 'a:1' });\ndeclare const options: object;",
      /options of another object/,
    ],
  ])('marks %s', async (line, message) => {
    const { migrated } = project();
    const text = migrated(`${IMPORT}${line}\n`);
    expect(text.split('\n').find((each) => each.includes('// etcdwire: '))).toMatch(message);
  });

  test('marks each use of an export of etcd3 that the program does not replace, and the import stays', async () => {
    const { migrated } = project();
    const text = migrated(
      "import { Etcd3, EtcdLockFailedError, type IKeyValue } from 'etcd3';\nexport const open = (options: object) => new Etcd3(options);\nexport const isTaken = (error: unknown) => error instanceof EtcdLockFailedError;\nexport type Pair = IKeyValue;\n",
    );
    expect(text).toBe(
      [
        "import { EtcdLockFailedError, type IKeyValue } from 'etcd3';",
        "import { Client } from 'etcdwire';",
        '// etcdwire: these options are made elsewhere: `hosts` is now `endpoints`, a list, and `credentials` is `tls`',
        'export const open = (options: object) => new Client(options);',
        '// etcdwire: there is no error for a taken lock: tryLock() of Mutex resolves with undefined',
        'export const isTaken = (error: unknown) => error instanceof EtcdLockFailedError;',
        '// etcdwire: use KeyValue of etcdwire: `key` is a string, text() and json() decode the value',
        'export type Pair = IKeyValue;',
        '',
      ].join('\n'),
    );
  });

  test('is not added again when the program runs a second time', async () => {
    const { migrated } = project();
    const once = migrated(
      "import { Etcd3, Lock } from 'etcd3';\nexport let lock: Lock;\nconst c = new Etcd3();\nc.close();\n",
    );
    expect(once).toContain('// etcdwire: ');
    expect(migrated(once)).toBe(once);
  });

  test('advises `lease.grant` for a lease that etcd3 does not renew, because a session renews its lease', async () => {
    const { migrated } = project();
    const text = migrated(
      `${IMPORT}export async function f() {\n  const entry = client.lease(10, { autoKeepAlive: false });\n  await entry.put('a').value('b');\n}\n`,
    );
    const advice =
      '  // etcdwire: use `await client.lease.grant({ ttl })`, which nothing renews, and put with { lease }';
    expect(text.split('\n').filter((line) => line.startsWith(advice))).toHaveLength(2);
    expect(text).not.toContain('Session');
  });

  test('says what to write in place of a part of etcd3 that etcdwire lacks, and names no document', async () => {
    const { migrated } = project();
    const text = migrated(
      "import { Etcd3, EtcdLeaseInvalidError, GRPCUnavailableError } from 'etcd3';\nconst c = new Etcd3({ grpcOptions: {} });\nexport const a = (e: unknown) => e instanceof EtcdLeaseInvalidError;\nexport const b = (e: unknown) => e instanceof GRPCUnavailableError;\nc?.close();\nc.frobnicate();\n",
    );
    expect(text).toContain('use connectTimeoutMs, pingIntervalMs and maxReceiveBytes');
    expect(text).toContain("use error.reason === 'LeaseNotFound' of EtcdError");
    expect(text).toContain("use error.code === 'Unavailable' of EtcdError");
    expect(text).toContain('etcdwire has no method frobnicate; Client has get, put, delete,');
    expect(text).not.toMatch(/has no method close|docs\//);
  });
});

describe('`etcdwire-migrate`', () => {
  test('changes nothing with --dry-run, and prints a diff that git accepts', async () => {
    const { folder } = project();
    // The change in the last line, which has no end of line, is part of the diff.
    const before = `${PROGRAM}await client.put('a').value('b');`;
    writeFileSync(join(folder, 'program.ts'), before);
    const { stdout, stderr, code } = migrate([join(folder, 'program.ts'), '--dry-run']);
    expect(code).toBe(0);
    expect(readFileSync(join(folder, 'program.ts'), 'utf8')).toBe(before);
    expect(stdout).toContain(
      "-import { Etcd3 } from 'etcd3';\n+import { Client, compare, keyRange, op, prefix as etcdPrefix } from 'etcdwire';",
    );
    expect(stderr).toMatch(/1 of 1 files would be changed: \d+ places rewritten, 1 marked\n$/);
    expect(stdout).not.toContain('would be changed');
    const json = migrate([folder, '--dry-run', '--json']);
    const { files } = JSON.parse(json.stdout) as { files: { diff: string; marks: object[]; rewritten: number }[] };
    expect(files).toHaveLength(1);
    const patch = join(folder, 'patch');
    writeFileSync(patch, (files[0]?.diff ?? '').replaceAll(/^(---|\+\+\+) ([ab])\/.*$/gm, '$1 $2/program.ts'));
    const applied = startChild('git', ['-C', folder, 'apply', '--check', '-p1', patch]);
    expect(await applied.exited).toBe(0);
  });

  test('leaves files without etcd3, files with errors and installed packages as they are', async () => {
    const { folder, migrated } = project();
    mkdirSync(join(folder, 'node_modules/etcd3-user'));
    const texts = {
      'plain.ts': "const text = 'etcd3';\nexport const put = { value: (etcd3: string) => etcd3 + text };\n",
      'wrong.ts': "import { Etcd3 } from 'etcd3';\nconst client = new Etcd3(;\n",
      'node_modules/etcd3-user/index.js': "const { Etcd3 } = require('etcd3');\nnew Etcd3();\n",
      'notes.md': "import { Etcd3 } from 'etcd3';\n",
    };
    for (const [file, text] of Object.entries(texts)) writeFileSync(join(folder, file), text);
    expect(migrated(IMPORT)).toBe(IMPORTED);
    for (const [file, text] of Object.entries(texts)) expect(readFileSync(join(folder, file), 'utf8')).toBe(text);
    expect(readdirSync(folder).toSorted()).toEqual(['node_modules', 'notes.md', 'plain.ts', 'program.ts', 'wrong.ts']);
    const { stdout } = migrate([folder, '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ files: [], unchanged: [{ problem: 'the parser finds errors in it' }] });
  });

  test.each(['5.2.2', '5.9.3', '6.0.3'])('rewrites a program with the parser of typescript %s', async (version) => {
    const typescript = createRequire(await typescriptCompiler(version))('../lib/typescript.js') as TypeScript;
    expect(project(typescript).migrated(IMPORT)).toBe(IMPORTED);
  });

  test('refuses a missing path, several paths and an unknown option, and names what is allowed', () => {
    const { folder } = project();
    const missing = join(folder, 'missing');
    expect(migrate([missing])).toEqual({
      code: 64,
      stdout: '',
      stderr: `etcdwire-migrate: ${missing} does not exist; allowed: a file or a folder\n`,
    });
    expect(migrate([folder, folder])).toMatchObject({ code: 64, stderr: expect.stringContaining('got 2 paths') });
    expect(migrate([folder, '--dry'])).toMatchObject({ code: 64, stderr: expect.stringContaining("'--dry'") });
  });

  test('changes no file if it may not write one of them', () => {
    const { folder } = project();
    for (const name of ['a.ts', 'b.ts']) writeFileSync(join(folder, name), IMPORT);
    chmodSync(folder, 0o755);
    chmodSync(join(folder, 'a.ts'), 0o666);
    chmodSync(join(folder, 'b.ts'), 0o444);
    const result = asOtherUser(() => migrate([folder]));
    expect(result).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('no file was changed') });
    expect(readFileSync(join(folder, 'a.ts'), 'utf8')).toBe(IMPORT);
  });

  test('names a file that it may not read, and changes no file', () => {
    const { folder } = project();
    for (const name of ['a.ts', 'b.ts']) writeFileSync(join(folder, name), IMPORT);
    chmodSync(folder, 0o755);
    chmodSync(join(folder, 'b.ts'), 0o000);
    const result = asOtherUser(() => migrate([folder]));
    expect(result).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/cannot read .*b\.ts; no file/),
    });
    expect(readFileSync(join(folder, 'a.ts'), 'utf8')).toBe(IMPORT);
  });

  test('is a program that runs after the installation of the package, without other packages than typescript', async () => {
    const folder = temporaryFolder();
    await buildMigrate(join(folder, 'dist'));
    const copied = readFileSync(join(folder, 'dist/migrate.cjs'), 'utf8').matchAll(/^\/\*! With ([^:]+):$/gm);
    expect([...copied].map(([, names]) => names)).toEqual(['diff']);
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(dirname(dirname(await typescriptCompiler('5.9.3'))), join(folder, 'node_modules/typescript'));
    writeFileSync(join(folder, 'program.ts'), IMPORT);
    const child = startChild(process.execPath, [join(folder, 'dist/migrate.cjs'), join(folder, 'program.ts')]);
    expect(await child.rest()).toEqual(['1 of 1 files changed: 1 places rewritten, 0 marked']);
    expect(await child.exited).toBe(0);
    expect(readFileSync(join(folder, 'program.ts'), 'utf8')).toBe(IMPORTED);
  });
});
