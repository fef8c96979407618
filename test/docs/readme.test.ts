import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import { connectProxy } from '../support/connect-proxy.js';
import { ownEtcd } from '../support/own-etcd.js';
import { PROGRAM_PAGES, printedBy, programsOf, runProgram } from '../support/program.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { SecureEtcd } from '../support/tls/secure-etcd.js';

// These tests run the programs of README.md and of the other pages in `PROGRAM_PAGES`. Each program runs against a new
// server, whose endpoint replaces the endpoint in the program. test/docs/examples.test.ts compiles the programs of the
// pages.

async function run(program: string): Promise<string[]> {
  const { endpoints } = await ownEtcd();
  if (program.includes('3128')) return runThroughProxy(program, Number(new URL(endpoints[0] as string).port));
  return runProgram(program.replaceAll("'http://127.0.0.1:2379'", `'${endpoints[0]}'`));
}

/** Runs a program that uses an HTTP proxy at port 3128. Replaces this proxy by a new one that connects to `port`. */
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

describe.each(Object.entries(PROGRAM_PAGES))('%s', (page, count) => {
  const programs = programsOf(page);

  it(`contains ${count} programs`, () => {
    expect(programs).toHaveLength(count);
  });

  it.each(programs.map((program, index) => [index + 1, program] as const))(
    'contains a program %i that prints what its comments say',
    async (_number, program) => {
      const claims = printedBy(program);
      expect(claims).not.toEqual([]);
      expect(await run(program)).toEqual(claims);
    },
  );
});

describe('docs/connections.md', () => {
  it('has a program that also works with TLS inside the tunnel of the proxy', async (context) => {
    const authority = await Authority.create();
    const etcd = await SecureEtcd.start(await authority.issue({ names: ['etcd.internal', '127.0.0.1'] }));
    if (etcd === undefined) return context.skip('etcd members cannot be started as processes');
    onTestFinished(() => etcd.stop());
    const file = join(temporaryFolder(), 'ca.pem');
    writeFileSync(file, authority.cert);
    const tunnel = programsOf('docs/connections.md').find((program) => program.includes('3128')) as string;
    const program = tunnel.replace('http://etcd', 'https://etcd');
    expect(await runThroughProxy(program, etcd.port, { NODE_EXTRA_CA_CERTS: file })).toEqual(printedBy(tunnel));
  });
});
