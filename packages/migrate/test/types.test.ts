import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { IMPORT, migrate, project } from './project.js';

/** Returns the lines of a text that begin with `+` in a comparison with `before`. */
function linesAdded(before: string, after: string): readonly string[] {
  const old = before.split('\n');
  return after
    .split('\n')
    .filter((line) => !old.includes(line))
    .map((line) => line.trim());
}

/** The file that creates the client of the programs below. */
const CLIENT = "import { Etcd3 } from 'etcd3';\nexport const createClient = () => new Etcd3();\n";
const CREATED = "import { Client } from 'etcdwire';\nexport const createClient = () => new Client();\n";

describe('`etcdwire-migrate` finds a client', () => {
  test('that a function in another file creates, and adds the imports to a file that does not load etcd3', () => {
    const text =
      "// Reads.\nimport { createClient } from './client.js';\n\nexport const keys = () => createClient().getAll().prefix('a').keys();\n";
    const { 'client.ts': client, 'keys.ts': keys } = project().migratedAll({ 'client.ts': CLIENT, 'keys.ts': text });
    expect(client).toBe(CREATED);
    expect(keys).toBe(
      "// Reads.\nimport { prefix } from 'etcdwire';\nimport { createClient } from './client.js';\n\nexport const keys = () => createClient().range(prefix('a'), { keysOnly: true }).then(({ kvs }) => kvs.map((kv) => kv.key));\n",
    );
  });

  test('in a field, a getter and a destructured object of another class', () => {
    const text = `import { createClient } from './client.js';
class Base {
  protected readonly etcd = createClient();
  get cache() {
    return this.etcd.namespace('cache/');
  }
}
export class Store extends Base {
  async read() {
    const { etcd, cache: inner } = this;
    const { name } = (await etcd.get('a').json()) as { name: string };
    return [name, await inner.get('b').exists(), await this.cache.get('c').string()];
  }
}
`;
    const { 'store.ts': after } = project().migratedAll({ 'client.ts': CLIENT, 'store.ts': text });
    expect(linesAdded(text, after)).toEqual([
      "const { name } = ((await etcd.get('a'))?.json() ?? null) as { name: string };",
      "return [name, (await inner.get('b')) !== undefined, (await this.cache.get('c'))?.text() ?? null];",
    ]);
  });

  test('in a parameter whose type the caller determines', () => {
    const text = `import { createClient } from './client.js';
const run = <T>(action: (etcd: ReturnType<typeof createClient>) => T) => action(createClient());
export const value = run(async (etcd) => await etcd.get('a').string());
`;
    const { 'run.ts': after } = project().migratedAll({ 'client.ts': CLIENT, 'run.ts': text });
    expect(linesAdded(text, after)).toEqual([
      "export const value = run(async (etcd) => (await etcd.get('a'))?.text() ?? null);",
    ]);
  });

  test('in JavaScript: in exports, variables that get it later, and parameters without a type', () => {
    const texts = {
      'client.js':
        "const { Etcd3 } = require('etcd3');\nlet shared = null;\nfunction open(hosts) {\n  if (!shared) shared = new Etcd3({ hosts });\n  return shared;\n}\nmodule.exports = { open };\n",
      'store.js':
        "'use strict';\nclass Store {\n  constructor({ client }) {\n    this.client = client;\n    this.watcher = null;\n  }\n  count() {\n    return this.client.getAll().count();\n  }\n  async watch() {\n    this.watcher = await this.client.watch().key('a').create();\n  }\n  close() {\n    return this.watcher.cancel();\n  }\n}\nmodule.exports = Store;\n",
      'main.js':
        "const { open } = require('./client');\nconst Store = require('./store');\nconst client = open('a:1');\nmodule.exports = { client, store: new Store({ client }) };\n",
      'use.js': "const { client } = require('./main');\nclient.delete().key('a').exec();\n",
    };
    const after = project().migratedAll(texts);
    expect(linesAdded(texts['client.js'], after['client.js'])).toEqual([
      "const { Client } = require('etcdwire');",
      'if (!shared) shared = new Client({ endpoints: [hosts].flat() });',
    ]);
    expect(after['store.js']).toMatch(/^'use strict';\nconst { prefix } = require\('etcdwire'\);\nclass Store/);
    expect(linesAdded(texts['store.js'], after['store.js'])).toEqual([
      "const { prefix } = require('etcdwire');",
      "return this.client.range(prefix(''), { countOnly: true }).then(({ count }) => count);",
      "this.watcher = this.client.watch('a');",
      'await this.watcher.created();',
      'return this.watcher.close();',
    ]);
    expect(after['main.js']).toBe(texts['main.js']);
    expect(after['use.js']).toBe("const { client } = require('./main');\nclient.delete('a');\n");
  });

  test('in a subclass, and through the paths in the `tsconfig.json` of the project', () => {
    const { folder, migratedAll } = project();
    const config = { compilerOptions: { paths: { '#/*': ['./lib/*'] } } };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
    const text =
      "import { Etcd } from '#/etcd.ts';\nexport const get = async (etcd: Etcd) => await etcd.get('a').number();\n";
    const { 'get.ts': after } = migratedAll({
      'lib/etcd.ts': "import { Etcd3 } from 'etcd3';\nexport class Etcd extends Etcd3 {}\n",
      'get.ts': text,
    });
    expect(after).toContain("await etcd.get('a').then((kv) => (kv === undefined ? null : Number(kv.text())))");
  });

  test('in a program with errors of types', () => {
    const text = `${IMPORT}const wrong: number = 'a';\nunknown(wrong);\nawait client.put(missing).value('b');\n`;
    expect(project().migrated(text)).toContain("await client.put(missing, 'b');");
  });

  test('only where the type is of etcd3', () => {
    const text = `${IMPORT}class Other { put(key: string) { return { value: (value: string) => key + value }; } }\nexport const other = new Other().put('a').value('b');\nclient.close();\n`;
    expect(project().migrated(text)).toContain("export const other = new Other().put('a').value('b');");
  });
});

describe('`etcdwire-migrate` rewrites', () => {
  test.each([
    ["await client?.get('a').string()", "await client?.get('a').then((kv) => kv?.text() ?? null)"],
    ["await client?.put('a').value('b')", "await client?.put('a', 'b')"],
    ["await client?.namespace('n/').delete().key('a')", "await client?.namespace('n/').delete('a')"],
    ["void client.put('a').value('b').exec()", "void client.put('a', 'b')"],
    ['client.getRoles().catch(console.error)', 'client.auth.roleList().catch(console.error)'],
    ["void client.put('a').value(count)", "void client.put('a').value(count)"],
    ["await client.put('a').value(count)", "await client.put('a', String(count))"],
    ["await client.put('a').value(name)", "await client.put('a', name)"],
    [
      'await client.getAll().limit(count).count()',
      "await client.range(prefix(''), { limit: count, countOnly: true }).then(({ count }) => count)",
    ],
    [
      "await client.stm({ isolation: 1, retries: 2 }).transact(async (tx) => { await tx.put('a').value((await tx.get('b').string()) ?? ''); })",
      "await stm(client, { isolation: 'serializable', maxAttempts: 3 }, async (tx) => { await tx.put('a', ((await tx.get('b'))?.text()) ?? ''); })",
    ],
  ])('%s', (before, after) => {
    const variables = 'declare const count: number;\ndeclare const name: string;\n';
    const text = project().migrated(`${IMPORT}${variables}async function f() {\n  ${before};\n}\nvoid f;\n`);
    expect(text).toContain(`  ${after};\n`);
  });

  test('options that a function returns or a variable contains', () => {
    const text =
      "import { Etcd3, type IOptions } from 'etcd3';\nconst shared = { hosts: 'a:1', dialTimeout: 5 };\nconst options = (hosts: string): IOptions => ({ hosts });\nvoid [new Etcd3(shared), new Etcd3(options('b:1'))];\n";
    expect(project().migrated(text)).toBe(
      "import { Client, type ClientOptions } from 'etcdwire';\nconst shared = { endpoints: ['http://a:1'], connectTimeoutMs: 5 };\nconst options = (hosts: string): ClientOptions => ({ endpoints: [hosts] });\nvoid [new Client(shared), new Client(options('b:1'))];\n",
    );
  });

  test('leases in fields with sessions, if etcd3 renews every lease of the program', () => {
    const text = `${IMPORT.replace('{ Etcd3 }', '{ Etcd3, type Lease }')}
class Service {
  #lease: Lease | undefined;
  async start() {
    this.#lease = client.lease(10);
    await this.#lease.put('a').value('b');
  }
  async stop() {
    await this.#lease?.revoke();
  }
}
void Service;
`;
    expect(linesAdded(text, project().migrated(text))).toEqual([
      "import { Client } from 'etcdwire';",
      "import { Session } from 'etcdwire/locks';",
      'const client = new Client();',
      '#lease: Session | undefined;',
      'this.#lease = await Session.open(client, { ttl: 10 });',
      "await this.#lease.client.put('a', 'b', { lease: this.#lease.leaseId });",
      'await this.#lease?.close();',
    ]);
    const mixed = `${text}void client.lease(5, { autoKeepAlive: false });\n`;
    expect(project().migrated(mixed)).toContain('#lease: Lease | undefined;');
  });

  test('the types of namespaces and watchers', () => {
    const text =
      "import type { Namespace, Watcher } from 'etcd3';\nexport const stop = async (keys: Namespace, watcher: Watcher) => {\n  await watcher.cancel();\n  return await keys.get('a').string();\n};\n";
    expect(project().migrated(text)).toBe(
      "import { type Keyspace, type Watch } from 'etcdwire';\nexport const stop = async (keys: Keyspace, watcher: Watch) => {\n  await watcher.close();\n  return (await keys.get('a'))?.text() ?? null;\n};\n",
    );
  });
});

describe('a comment of `etcdwire-migrate`', () => {
  test('marks a property of an object that begins a line, and not the statement around the object', () => {
    const text = project().migrated(
      `${IMPORT}export const commands = {\n  first: () => 1,\n  roles: () => client.getRoles(),\n};\n`,
    );
    expect(text).toContain(
      'export const commands = {\n  first: () => 1,\n  // etcdwire: use auth.roleList()\n  roles: () => client.getRoles(),\n};\n',
    );
  });

  test('marks calls on an object of unknown type in a file that does not load etcd3, once', () => {
    const { migratedAll, folder } = project();
    const text = 'export const save = (store: any) => store.put("a").value("b");\n';
    const after = migratedAll({ 'client.ts': CLIENT, 'save.ts': text });
    expect(after['save.ts']).toBe(
      `// etcdwire: if this object is of etcd3, use put(key, value, { lease, prevKv })\n${text}`,
    );
    writeFileSync(join(folder, 'other.ts'), CLIENT);
    migrate([folder]);
    expect(readFileSync(join(folder, 'save.ts'), 'utf8')).toBe(after['save.ts']);
  });

  test('tells a campaign and an observer from an election', () => {
    const text = project().migrated(
      `${IMPORT}async function f() {\n  const campaign = client.election('a').campaign('b');\n  await campaign.wait();\n  const observer = await client.election('a').observe();\n  await observer.cancel();\n}\nvoid f;\n`,
    );
    expect(text).toContain('resign()\n  await campaign.wait();');
    expect(text).toContain('leader.text() is the value\n  await observer.cancel();');
  });

  test('marks a TTL above an hour, or one whose value the file does not show', async () => {
    const { migrated } = project();
    const lease = (ttl: string) =>
      migrated(
        `${IMPORT}export async function f(days: number) {\n  const lease = client.lease(${ttl});\n}\nconst DAY = 86_400;\n`,
      );
    expect(lease('3_600')).toContain('Session.open(client, { ttl: 3_600 });');
    expect(lease('3_601')).toContain('Session.open(client, { ttl: 3_601, allowLongTtl: true });');
    expect(lease('DAY')).toContain('Session.open(client, { ttl: DAY, allowLongTtl: true });');
    const unknown = lease('days * DAY');
    expect(unknown).toContain('// etcdwire: a TTL above 3600 s also needs `allowLongTtl: true`');
    expect(unknown).toContain('Session.open(client, { ttl: days * DAY });');
  });
});
