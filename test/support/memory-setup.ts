import type { TestProject } from 'vitest/node';
import type { RunningEtcd } from '../../src/testing/index.js';
import { startMemoryEtcd } from './memory-server.js';

let etcd: RunningEtcd;

/** Starts the server that all tests of the project `memory` or `memory-gateway` share. */
export async function setup(project: TestProject): Promise<void> {
  etcd = await startMemoryEtcd();
  project.provide('endpoints', etcd.endpoints);
  project.provide('etcdVersion', etcd.version);
}

export async function teardown(): Promise<void> {
  await etcd.close();
}
