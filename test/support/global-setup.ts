import type { TestProject } from 'vitest/node';
import { type Etcd, startEtcd } from '../../scripts/etcd.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** The member that the tests share. Those that stop or pause servers start their own. */
    endpoints: readonly string[];
    etcdctl: string | undefined;
    etcdVersion: string | undefined;
    /** What calls are carried by: `http2` or `grpc-js`. */
    transport: string;
  }
}

let etcd: Etcd;

export async function setup(project: TestProject): Promise<void> {
  etcd = await startEtcd();
  project.provide('endpoints', etcd.endpoints);
  project.provide('etcdctl', etcd.etcdctl);
  project.provide('etcdVersion', etcd.version);
}

export async function teardown(): Promise<void> {
  await etcd.stop();
}
