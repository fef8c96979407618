import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ownEtcd } from './support/own-etcd.js';
import { runProgram } from './support/program.js';

// These tests run the programs of README.md, docs/guide.md and docs/runtimes.md. Each program runs against a new
// server, whose endpoint replaces the endpoint in the program.

const ROOT = new URL('..', import.meta.url);

function programsOf(page: string): string[] {
  const text = readFileSync(new URL(page, ROOT), 'utf8');
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code as string);
}

async function run(program: string): Promise<string[]> {
  const { endpoints } = await ownEtcd();
  const prepared = program.replaceAll("'http://127.0.0.1:2379'", `'${endpoints[0]}'`);
  const setUp = program.includes('config/size') ? "await etcd.put('config/color', 'blue');\n" : '';
  return runProgram(prepared.replace(/(await using etcd = .*\n)/, `$1${setUp}`));
}

/** Returns the expected output of a program: the comment after each `console.log` that starts a line. */
function printed(program: string): string[] {
  return [...program.matchAll(/^ *console\.log\(.*\); \/\/ (.*)$/gm)].map(([, claim]) => claim as string);
}

describe('README.md', () => {
  it('contains one program, where each commented expression has the value that its comment states', async () => {
    const [program = '', ...others] = programsOf('README.md');
    expect(others).toEqual([]);
    const claims: string[] = [];
    const observed = program.replace(
      /^( *)(.*?);\s+\/\/ ('.*?'|\d+n?)(?:$|: .*$)/gm,
      (_line, indent, expression, claim) => {
        claims.push(claim);
        return `${indent}console.log(inspect(${expression}));`;
      },
    );
    expect(claims.length).toBeGreaterThanOrEqual(3);
    expect(await run(`import { inspect } from 'node:util';\n${observed}`)).toEqual(claims);
  });
});

describe('docs/guide.md', () => {
  const [usage = '', types = '', coordination = '', leading = '', mirrored = '', core = '', jobs = '', ...rest] =
    programsOf('docs/guide.md');
  const [overGrpcJs = '', logging = '', ...others] = rest;

  it('has exactly the nine programs that the next tests run', () => {
    expect(others).toEqual([]);
  });

  it.each([
    ['keys, a watch and a lock', usage, 1],
    ['typed keys', types, 1],
    ['an election and other coordination', coordination, 5],
    ['a leader', leading, 1],
    ['a mirror that continues after a restart', mirrored, 1],
    ['the client of etcdwire/core', core, 1],
    ['a queue of jobs', jobs, 2],
    ['grpc-js', overGrpcJs, 1],
  ])('has a program with %s that prints what its comments say', async (_what, program, count) => {
    const claims = printed(program);
    expect(claims).toHaveLength(count);
    expect(await run(program)).toEqual(claims);
  });

  it('has a program with a logger that prints the line in its last comment', async () => {
    expect(await run(logging)).toEqual([logging.trimEnd().split('\n// ').at(-1)]);
  });
});

describe('docs/runtimes.md', () => {
  it('contains one program, which uses the gateway and prints what its comment says', async () => {
    const [program = '', ...others] = programsOf('docs/runtimes.md');
    expect(others).toEqual([]);
    const claims = printed(program);
    expect(claims).toHaveLength(1);
    expect(await run(program)).toEqual(claims);
  });
});
