import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { connectProxy } from './support/connect-proxy.js';
import { ownEtcd } from './support/own-etcd.js';
import { runProgram } from './support/program.js';
import { temporaryFolder } from './support/temporary-folder.js';
import { Authority } from './support/tls/authority.js';
import { SecureEtcd } from './support/tls/secure-etcd.js';

// These tests run the programs of README.md, docs/guide.md, docs/locks.md and docs/runtimes.md. Each program runs
// against a new server, whose endpoint replaces the endpoint in the program.

const ROOT = new URL('..', import.meta.url);

function programsOf(page: string): string[] {
  const text = readFileSync(new URL(page, ROOT), 'utf8');
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code as string);
}

async function run(program: string): Promise<string[]> {
  const { endpoints } = await ownEtcd();
  if (program.includes('3128')) return runThroughProxy(program, Number(new URL(endpoints[0] as string).port));
  const prepared = program.replaceAll("'http://127.0.0.1:2379'", `'${endpoints[0]}'`);
  const setUp = program.includes('config/size') ? "await etcd.put('config/color', 'blue');\n" : '';
  return runProgram(prepared.replace(/(await using etcd = .*\n)/, `$1${setUp}`));
}

/** Runs a program that uses an HTTP proxy at the port 3128, with another proxy that connects to this port. */
async function runThroughProxy(
  program: string,
  port: number,
  environment?: Readonly<Record<string, string>>,
): Promise<string[]> {
  const proxy = await connectProxy(port);
  const output = await runProgram(program.replace('3128', String(proxy.port)), environment);
  expect(proxy.targets).toHaveLength(1);
  return output;
}

/** Returns the expected output of a program: the comment after each `console.log` that starts a line. */
function printed(program: string): string[] {
  return [...program.matchAll(/^ *console\.log\(.*\); \/\/ (.*)$/gm)].map(([, claim]) => claim as string);
}

describe('README.md', () => {
  const [first = '', lock = '', failure = '', ...others] = programsOf('README.md');

  it('begins with a program that prints what its comments say', async () => {
    const claims = [...first.matchAll(/console\.log\(.*\); +\/\/ (\w+)/g)].map(([, claim]) => claim);
    expect(claims).toHaveLength(1);
    expect(await run(first)).toEqual(claims);
  });

  it('shows a lock and a failed write in parts of programs that work', async () => {
    expect(others).toEqual([]);
    const program = [
      "import { connect, type EtcdError } from 'etcdwire';",
      "const etcd = await connect({ endpoints: ['http://127.0.0.1:2379'] });",
      lock,
      failure,
      "console.log((await etcd.get('jobs/last'))?.text(), (await etcd.get('config/color'))?.text());",
      'await etcd.close();',
    ];
    expect(await run(program.join('\n'))).toEqual(['today green']);
  });
});

describe('docs/guide.md', () => {
  const [usage = '', types = '', coordination = '', leading = '', mirrored = '', core = '', jobs = '', ...rest] =
    programsOf('docs/guide.md');
  const [connecting = '', overGrpcJs = '', tunnel = '', logging = '', ...others] = rest;

  it('has exactly the eleven programs that the next tests run', () => {
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
    ['the tunnel of a proxy', tunnel, 1],
  ])('has a program with %s that prints what its comments say', async (_what, program, count) => {
    const claims = printed(program);
    expect(claims).toHaveLength(count);
    expect(await run(program)).toEqual(claims);
  });

  it.each([
    ['a logger', logging],
    ['`connect`', connecting],
  ])('has a program with %s that prints the line in its last comment', async (_what, program) => {
    expect(await run(program)).toEqual([program.trimEnd().split('\n// ').at(-1)]);
  });

  it('has a program that also works with TLS inside the tunnel of the proxy', async (context) => {
    const authority = await Authority.create();
    const etcd = await SecureEtcd.start(await authority.issue({ names: ['etcd.internal', '127.0.0.1'] }));
    if (etcd === undefined) return context.skip('etcd members cannot be started as processes');
    onTestFinished(() => etcd.stop());
    const file = join(temporaryFolder(), 'ca.pem');
    writeFileSync(file, authority.cert);
    const program = tunnel.replace('http://etcd', 'https://etcd');
    expect(await runThroughProxy(program, etcd.port, { NODE_EXTRA_CA_CERTS: file })).toEqual(printed(tunnel));
  });
});

describe.each(['docs/locks.md', 'docs/runtimes.md'])('%s', (page) => {
  it('contains one program, which prints what its comment says', async () => {
    const [program = '', ...others] = programsOf(page);
    expect(others).toEqual([]);
    const claims = printed(program);
    expect(claims).toHaveLength(1);
    expect(await run(program)).toEqual(claims);
  });
});
