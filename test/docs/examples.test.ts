import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { format, promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import { findEtcd, startEtcd } from '../../scripts/etcd.js';
import { Client, EtcdError, prefix } from '../../src/index.js';
import { Session } from '../../src/locks.js';
import { DoubleBarrier } from '../../src/recipes.js';
import type { RunningEtcd } from '../../src/testing/index.js';
import { openScope, SCOPE_NAMES, type Scope } from '../support/example-scope.js';
import { claimsOf, documented, isPublic, programOf, usesMemoryEtcd } from '../support/examples.js';
import { importingSources, OTHER_PROGRAM_PAGES, PROGRAM_PAGES, programsOf } from '../support/program.js';

// These tests compile the `@example` block of each doc comment as a separate program, and run it against a server.

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDER = `${ROOT}.cache/examples-${process.pid}/`;

/** The programs that test/docs/programs.test.ts runs. test/docs/readme.test.ts runs the programs of the pages. */
const PROGRAMS = `${ROOT}docs/examples/`;

const all = documented();
const examples = all
  .flatMap(({ file, name, example }, index) =>
    example === undefined ? [] : [{ title: `${file} ${name}`, example, path: `${FOLDER}${index}.ts` }],
  )
  // An example that subscribes to diagnostics runs last, because its listener also prints the calls of later examples.
  .toSorted((a, b) => Number(a.example.includes('subscribe(')) - Number(b.example.includes('subscribe(')));

beforeAll(async () => {
  mkdirSync(FOLDER, { recursive: true });
  for (const { example, path } of examples) writeFileSync(path, programOf(example, SCOPE_NAMES));
  const write = (name: string, program: string): void =>
    writeFileSync(FOLDER + name, importingSources(program).replaceAll(/(from '.*)\.ts'/g, "$1.js'"));
  // `npm run check:types` compiles the programs for embedded engines, which are in a folder.
  for (const file of readdirSync(PROGRAMS).filter((name) => name.endsWith('.ts')))
    write(file, readFileSync(PROGRAMS + file, 'utf8'));
  const pages = [
    ...Object.keys(PROGRAM_PAGES).map((page) => [page, /./] as const),
    ...Object.entries(OTHER_PROGRAM_PAGES),
  ];
  for (const [page, compiles] of pages)
    for (const [index, program] of programsOf(page).entries())
      if (compiles.test(program)) write(`${page.replaceAll(/\W/g, '-')}-${index + 1}-program.ts`, program);
  // Examples read certificates from the current folder and write snapshots to it.
  const authority = await Authority.create();
  const { cert, key } = await authority.issue({ names: [] });
  const files = { 'ca.pem': authority.cert, 'ca.crt': authority.cert, 'client.crt': cert, 'client.key': key };
  for (const [file, text] of Object.entries(files)) writeFileSync(FOLDER + file, text);
  process.chdir(FOLDER);
});
afterAll(() => {
  process.chdir(ROOT);
  rmSync(FOLDER, { recursive: true, force: true });
});

it('each exported class and function has an example', () => {
  const shown = new Set(all.filter(({ example }) => example !== undefined).map(({ name }) => name));
  const named = all.filter((each) => each.kind !== 'other' && isPublic(each));
  expect(named.length).toBeGreaterThan(40);
  expect(named.filter(({ name }) => !shown.has(name)).map(({ file, name }) => `${file} ${name}`)).toEqual([]);
});

it('each example compiles when predefined names such as `etcd` are in scope, and so does each program of docs/examples and of the pages', async () => {
  const config = {
    extends: `${ROOT}tsconfig.json`,
    compilerOptions: {
      types: ['node'],
      typeRoots: [`${ROOT}node_modules/@types`],
      verbatimModuleSyntax: false,
      noUnusedLocals: false,
    },
    include: ['*.ts'],
  };
  writeFileSync(`${FOLDER}tsconfig.json`, JSON.stringify(config));
  const tsc = `${ROOT}node_modules/typescript/bin/tsc`;
  const { stdout } = await promisify(execFile)(process.execPath, [tsc, '-p', FOLDER]).catch((error) => error);
  const titles = new Map(examples.map(({ title, path }) => [path.slice(FOLDER.length), title]));
  expect(stdout.replaceAll(/^.*?(\d+\.ts)/gm, (_all: string, file: string) => titles.get(file))).toBe('');
});

/** Matches examples that change the whole server. Each such example runs on a server of its own. */
const CHANGES_THE_SERVER = /\.auth\.(?:enable|disable|authenticate)\(|\.member(?:Add|Promote|Remove|Update)\(/;

const ROOT_USER = { username: 'root', password: 'secret', allowPlaintext: true };

/** Calls that the server refuses, because the example leaves out a step that the reader has to do. */
const REFUSED: Readonly<Record<string, string>> = {
  // The example asks the reader to start the new member first.
  'client/services/cluster.ts memberPromote': 'LearnerNotReady',
};

describe('the example in the doc comment of', () => {
  let shared: RunningEtcd;
  const { PATH } = process.env;

  beforeAll(async () => {
    shared = await startEtcd();
    // Examples start an `EtcdCluster`, which uses the `etcd` on the PATH.
    const source = await findEtcd({ prefer: 'exact' });
    if (source.kind === 'binary') process.env.PATH = `${dirname(source.etcd)}${delimiter}${PATH}`;
  });
  afterAll(async () => {
    process.env.PATH = PATH;
    await shared.close();
  });

  it.each(examples)(
    '$title runs against a server and logs the output that the example states',
    async ({ title, example, path }) => {
      const own = CHANGES_THE_SERVER.test(example) ? await startEtcd() : undefined;
      const endpoint = (own ?? shared).endpoints[0] as string;
      await using root = new Client({ endpoints: [endpoint], auth: { allowPlaintext: true } });
      await prepare(root, example);
      const user = example.includes('authenticate(') ? ROOT_USER : undefined;
      const scope = await openScope(endpoint, user, usesMemoryEtcd(example));
      const log = vi.spyOn(console, 'log').mockImplementation(() => {});
      vi.spyOn(console, 'error').mockImplementation(() => {});
      const output = (): string[] => log.mock.calls.map((args) => format(...args));
      try {
        const run = import(path).then(
          () => undefined,
          (error: unknown) => error,
        );
        await accompany(scope, example);
        if (isEndless(example)) {
          await expect.poll(() => change(scope, example).then(output)).not.toEqual([]);
          await closed(scope);
          expect([undefined, 'ClientClosed']).toContain(((await run) as EtcdError | undefined)?.reason);
        } else {
          const error = await run;
          expect(error instanceof EtcdError ? error.reason : error).toBe(REFUSED[title]);
        }
        expect(output()).toEqual(expect.arrayContaining(claimsOf(example).map(withGaps)));
      } finally {
        // A closing client ends its leases, which some examples report.
        await closed(scope);
        await own?.close();
        vi.restoreAllMocks();
      }
    },
  );
});

/** Creates the keys, the users and the roles that the example expects to exist. */
async function prepare(etcd: Client, example: string): Promise<void> {
  await etcd.delete(prefix(''));
  await etcd.put('config/color', 'blue');
  await etcd.put('config/size', '10');
  await etcd.put('config', 'on');
  if (example.includes('etcd.auth.')) await prepareUsers(etcd, example);
}

async function prepareUsers(etcd: Client, example: string): Promise<void> {
  const { auth } = etcd;
  for (const user of (await auth.userList()).users) await auth.userDelete(user);
  for (const role of (await auth.roleList()).roles) await auth.roleDelete(role);
  if (!example.includes("roleAdd('reader'")) await auth.roleAdd('reader');
  if (!example.includes("userAdd('ann'")) await auth.userAdd('ann', { password: 'secret' });
  if (example.includes('userRevokeRole')) await auth.userGrantRole('ann', 'reader');
  if (example.includes('roleRevokePermission')) await auth.roleGrantPermission('reader', 'read', prefix('config/'));
  if (example.includes("userAdd('root'") || !CHANGES_THE_SERVER.test(example)) return;
  await auth.roleAdd('root');
  await auth.userAdd('root', { password: ROOT_USER.password });
  await auth.userGrantRole('root', 'root');
  if (example.includes('authenticate(')) await auth.enable();
}

/** Makes the changes that the example expects other clients to make while it runs. */
async function accompany({ etcd, session, service, election }: Scope, example: string): Promise<void> {
  if (example.includes('DoubleBarrier')) {
    const enter = async (): Promise<void> => {
      const barrier = new DoubleBarrier(await Session.open(etcd), 'phase-1', 3);
      await barrier.enter();
      await barrier.leave();
    };
    await Promise.all([enter(), enter()]);
  }
  if (example.includes('service.watch')) await service.register(session, 'web-0', { address: '10.0.0.9:8080' });
  if (example.includes('observe(')) await election.campaign('host-1');
}

/**
 * Ends the session first, because otherwise the client would wait for the locks that the example has not released. The
 * server refuses this if the example has enabled authentication.
 */
async function closed({ session, etcd }: Scope): Promise<void> {
  await session.close().catch(() => {});
  await etcd.close();
}

/** Whether the example iterates without `break` over a source, such as a watch, that never ends by itself. */
function isEndless(example: string): boolean {
  return /for await/.test(example) && !/break;|snapshot\(/.test(example);
}

/** Makes changes that the loop of an endless example observes. See `isEndless`. */
async function change({ etcd }: Scope, example: string): Promise<void> {
  await etcd.put('config/size', '11');
  await etcd.delete('config/size');
  if (example.includes('gaps()')) for (const id of (await etcd.lease.list()).ids) await etcd.lease.revoke(id);
}

function withGaps(claim: string): unknown {
  if (!claim.includes('…')) return claim;
  return expect.stringMatching(
    claim
      .split('…')
      .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
      .join('.*'),
  );
}
