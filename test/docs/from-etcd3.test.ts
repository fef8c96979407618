import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as etcd3 from 'etcd3';
import { expect, test } from 'vitest';
import { STATUS_CODES, serverReason, statusOfReason } from '../../src/base/status.js';
import { errorFromStatus } from '../../src/base/status-error.js';
import { startChild } from '../support/child.js';
import { unique } from '../support/client.js';
import { ownEtcd } from '../support/own-etcd.js';

// Runs the etcd3 example and the etcdwire example of each section of docs/from-etcd3.md. One process with its own
// server runs all etcd3 examples, and another one runs all etcdwire examples.

const ROOT = new URL('../..', import.meta.url).pathname;
const PAGE = readFileSync(join(ROOT, 'docs/from-etcd3.md'), 'utf8');
const SECTIONS = PAGE.split(/^## /m)
  .slice(1)
  .map((section) => ({
    title: section.slice(0, section.indexOf('\n')),
    blocks: [...section.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, block]) => block as string),
  }))
  .filter(({ blocks }) => blocks.length > 0);
const END = '--- end of a section';

test('the etcdwire example in each section of docs/from-etcd3.md prints the same lines as the etcd3 example of that section', async () => {
  expect(SECTIONS.length).toBeGreaterThan(10);
  expect(SECTIONS.filter(({ blocks }) => blocks.length !== 2)).toEqual([]);
  const [theirs, ours] = await Promise.all([printed(0), printed(1)]);
  for (const [index, { title }] of SECTIONS.entries()) {
    expect(theirs[index], title).not.toEqual([]);
    expect.soft(ours[index], title).toEqual(theirs[index]);
  }
});

/** The messages of the server for which etcd3 has error classes. */
const MESSAGES = [
  'etcdserver: role name already exists',
  'etcdserver: user name already exists',
  'etcdserver: role is not granted to the user',
  'etcdserver: role name not found',
  'etcdserver: user name not found',
  'etcdserver: authentication failed, invalid user ID or password',
  'etcdserver: permission denied',
  'etcdserver: invalid auth token',
  'etcdserver: requested lease not found',
];

/** The rows of the table of errors: the name of an error class of etcd3, and the text about etcdwire. */
const ERRORS = [...PAGE.matchAll(/^\| (`\w+Error`(?:, `\w+Error`)*|`EtcdWatchStreamEnded`) \| (.*) \|$/gm)].flatMap(
  ([, classes = '', text = '']) => [...classes.matchAll(/\w+/g)].map(([name]) => [name, text] as const),
);

test('the table of errors in docs/from-etcd3.md has a row for every error class of etcd3', () => {
  const classes = Object.entries(etcd3).filter(
    ([, value]) => typeof value === 'function' && value.prototype instanceof Error,
  );
  expect(ERRORS.map(([name]) => name).toSorted()).toEqual(classes.map(([name]) => name).toSorted());
});

test('the table of errors in docs/from-etcd3.md names, for each error class of etcd3, the reason or code that etcdwire has for the same error of the server', () => {
  const table = new Map(ERRORS);
  const named = MESSAGES.map((message) => [statusOfReason(serverReason(message) ?? '') ?? 'Unknown', message] as const);
  const unnamed = STATUS_CODES.filter((code) => code !== 'OK').map((code) => [code, 'a text'] as const);
  const shown = [...named, ...unnamed].map(([code, message]) => {
    const { name } = etcd3.castGrpcError(
      Object.assign(new Error(message), { code: STATUS_CODES.indexOf(code) }),
    ).constructor;
    return { name, row: table.get(name), error: errorFromStatus(code, message) };
  });
  for (const { name, row, error } of shown) {
    const values = [...(row ?? '').matchAll(/`(\w+)`/g)].map(([, value]) => value);
    expect([error.reason, error.code], name).toContain(values[0]);
  }
  expect(new Set(shown.map(({ name }) => name)).size).toBeGreaterThan(20);
});

/** Runs the examples of one package and returns the lines that each prints. Side 0 is etcd3, and side 1 is etcdwire. */
async function printed(side: 0 | 1): Promise<string[][]> {
  const { endpoints } = await ownEtcd();
  const folder = join(ROOT, '.cache', unique('from-etcd3'));
  mkdirSync(folder, { recursive: true });
  try {
    const file = join(folder, 'program.mts');
    writeFileSync(file, program(side, endpoints[0] as string));
    const child = startChild(process.execPath, ['--import', 'tsx', file]);
    const text = (await child.rest()).join('\n');
    expect(await child.exited).toBe(0);
    return text
      .split(END)
      .slice(0, -1)
      .map((section) => section.split('\n').filter((line) => line !== ''));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Returns a program with the examples of one package. Each example has its own scope, and all examples use the client
 * that the first example creates.
 */
function program(side: 0 | 1, endpoint: string): string {
  const imports = new Set(['import { inspect } from "node:util";']);
  const bodies = SECTIONS.map(({ blocks }) => {
    const lines = (blocks[side] as string).split('\n');
    for (const line of lines.filter((each) => each.startsWith('import '))) {
      const [, names = '', from = ''] = /^import \{ (.*) \} from '(.*)';$/.exec(line) ?? [];
      for (const name of names.split(', ')) imports.add(`import { ${name} } from '${pathOf(from)}';`);
    }
    return lines.filter((each) => !each.startsWith('import ')).join('\n');
  });
  const [first = '', ...others] = bodies;
  // The first example creates a client. The other examples use a client that is created with the same line.
  const open = first.split('\n').find((line) => line.includes('= new '));
  const close = side === 0 ? 'client.close();' : 'await etcd.close();';
  const scopes = [first, ...others].map((body) => `await (async () => {\n${body}\n})();\nconsole.log('${END}');`);
  return [...imports, scopes[0], open, ...scopes.slice(1), close]
    .join('\n')
    .replaceAll('http://127.0.0.1:2379', endpoint);
}

function pathOf(from: string): string {
  const entries: Readonly<Record<string, string>> = {
    etcdwire: 'src/index.ts',
    'etcdwire/locks': 'src/locks.ts',
    'etcdwire/recipes': 'src/recipes.ts',
  };
  const entry = entries[from];
  return entry === undefined ? from : join(ROOT, entry);
}
