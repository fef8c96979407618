import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startChild } from './support/child.js';
import { ownEtcd } from './support/own-etcd.js';
import { temporaryFolder } from './support/temporary-folder.js';

// The programs of the README run as they stand there, against a server that is as new as the reader's.

const ROOT = new URL('..', import.meta.url);
const README = readFileSync(new URL('README.md', ROOT), 'utf8');
const PROGRAMS = [...README.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code as string);

test('every program is run by one of the tests below', () => {
  expect(PROGRAMS).toHaveLength(5);
});

test('the first program gives the results that its comments say', async () => {
  const claims: string[] = [];
  const observed = (PROGRAMS[0] as string).replace(
    /^( *)(.*?);\s+\/\/ ('.*?'|\d+n)(?:$|: .*$)/gm,
    (_line, indent, expression, claim) => {
      claims.push(claim);
      return `${indent}console.log(inspect(${expression}));`;
    },
  );
  expect(claims.length).toBeGreaterThanOrEqual(3);
  expect(await run(`import { inspect } from 'node:util';\n${observed}`)).toEqual(claims);
});

test('the second program prints what its comment says', async () => {
  expect(await run(PROGRAMS[1] as string)).toEqual(['put config/color blue']);
});

test('the third program prints what its comments say', async () => {
  const program = PROGRAMS[2] as string;
  const claims = [...program.matchAll(/^console\.log\(.*\); \/\/ (.*)$/gm)].map(([, claim]) => claim);
  expect(claims).toHaveLength(3);
  expect(await run(program)).toEqual(claims);
});

test('the fourth program prints what its comment says', async () => {
  expect(await run(PROGRAMS[3] as string)).toEqual(['red']);
});

test('the fifth program prints what its comment says', async () => {
  expect(await run(PROGRAMS[4] as string)).toEqual(['violet']);
});

async function run(program: string): Promise<string[]> {
  const { endpoints } = await ownEtcd();
  const file = join(temporaryFolder(), 'program.mts');
  const prepared = program
    .replaceAll("'http://127.0.0.1:2379'", `'${endpoints[0]}'`)
    .replaceAll("'etcdwire/concurrency'", `'${new URL('src/concurrency/index.ts', ROOT).pathname}'`)
    .replaceAll("'etcdwire/gateway'", `'${new URL('src/gateway/index.ts', ROOT).pathname}'`)
    .replaceAll("'etcdwire/grpc-js'", `'${new URL('src/grpc-js.ts', ROOT).pathname}'`)
    .replaceAll("'etcdwire'", `'${new URL('src/index.ts', ROOT).pathname}'`);
  const setUp = program.includes('config/size') ? "await etcd.put('config/color', 'blue');\n" : '';
  writeFileSync(file, prepared.replace(/(await using etcd = .*\n)/, `$1${setUp}`));
  const child = startChild(process.execPath, ['--import', 'tsx', file]);
  const lines = await child.rest();
  expect(await child.exited).toBe(0);
  return lines;
}
