import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ownEtcd } from './support/own-etcd.js';
import { runProgram } from './support/program.js';

// Runs the programs of the README unchanged, each with its own new server.

const ROOT = new URL('..', import.meta.url);
const README = readFileSync(new URL('README.md', ROOT), 'utf8');
const PROGRAMS = [...README.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code as string);

test('the README has as many programs as this file tests', () => {
  expect(PROGRAMS).toHaveLength(6);
});

test('the first program of the README returns the values in its comments', async () => {
  const claims: string[] = [];
  const observed = (PROGRAMS[0] as string).replace(
    /^( *)(.*?);\s+\/\/ ('.*?'|\d+n?)(?:$|: .*$)/gm,
    (_line, indent, expression, claim) => {
      claims.push(claim);
      return `${indent}console.log(inspect(${expression}));`;
    },
  );
  expect(claims.length).toBeGreaterThanOrEqual(3);
  expect(await run(`import { inspect } from 'node:util';\n${observed}`)).toEqual(claims);
});

test('the second program of the README prints the line in its comment', async () => {
  expect(await run(PROGRAMS[1] as string)).toEqual(['put config/color blue']);
});

test('the third program of the README prints the lines in its comments', async () => {
  const program = PROGRAMS[2] as string;
  const claims = [...program.matchAll(/^console\.log\(.*\); \/\/ (.*)$/gm)].map(([, claim]) => claim);
  expect(claims).toHaveLength(3);
  expect(await run(program)).toEqual(claims);
});

test('the fourth program of the README prints the line in its comment', async () => {
  expect(await run(PROGRAMS[3] as string)).toEqual(['red']);
});

test('the fifth program of the README prints its last line', async () => {
  const program = PROGRAMS[4] as string;
  expect(await run(program)).toEqual([program.trimEnd().split('\n// ').at(-1)]);
});

test('the sixth program of the README prints the line in its comment', async () => {
  expect(await run(PROGRAMS[5] as string)).toEqual(['violet']);
});

async function run(program: string): Promise<string[]> {
  const { endpoints } = await ownEtcd();
  const prepared = program.replaceAll("'http://127.0.0.1:2379'", `'${endpoints[0]}'`);
  const setUp = program.includes('config/size') ? "await etcd.put('config/color', 'blue');\n" : '';
  return runProgram(prepared.replace(/(await using etcd = .*\n)/, `$1${setUp}`));
}
