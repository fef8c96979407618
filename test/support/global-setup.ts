import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { buildCli } from '../../scripts/build/packages.js';
import { startEtcd } from '../../scripts/etcd.js';
import type { RunningEtcd } from '../../src/testing/index.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** The endpoints of the member that all tests share. Tests that stop or suspend servers start their own. */
    endpoints: readonly string[];
    etcdctl: string | undefined;
    etcdVersion: string | undefined;
    /** The path of the command-line program `etcdwire`. */
    program: string;
    /** The default transport of the project: `http2`, `grpc-js` or `gateway`. */
    transport: string;
    /** The server that the tests of the project use: `etcd`, or `memory` for a `MemoryEtcd` at a port. */
    server: string;
    /** Whether this is the complete run of `npm run test:all`. */
    thorough: boolean;
  }
}

let etcd: RunningEtcd;
/** The folder for the command-line program. Its name is unique, because runs of tests can run at the same time. */
const PROGRAM_FOLDER = `.cache/program-${process.pid}`;

export async function setup(project: TestProject): Promise<void> {
  [etcd] = await Promise.all([startEtcd(), buildCli(PROGRAM_FOLDER)]);
  project.onTestsRerun(() => buildCli(PROGRAM_FOLDER));
  project.provide('program', join(project.config.root, PROGRAM_FOLDER, 'cli.cjs'));
  project.provide('endpoints', etcd.endpoints);
  project.provide('etcdctl', etcd.etcdctl);
  project.provide('etcdVersion', etcd.version);
}

export async function teardown(): Promise<void> {
  await etcd.close();
  rmSync(PROGRAM_FOLDER, { recursive: true, force: true });
}
