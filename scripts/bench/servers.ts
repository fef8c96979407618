import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import type { RunningEtcd } from '../../src/testing/index.js';
import { startEtcd } from '../etcd.js';

/** The quota of the server's database in bytes. It is larger than what a run writes between two compactions. */
const QUOTA_BYTES = 8 * 2 ** 30;
/** The maximum number of operations in a transaction. */
const MAX_TXN_OPS = 1_000;
const ARGUMENTS = [`--quota-backend-bytes=${QUOTA_BYTES}`, `--max-txn-ops=${MAX_TXN_OPS}`];

/** The members that a part of a run uses. */
export interface Server extends Pick<RunningEtcd, 'endpoints' | 'version' | 'close'> {
  /** The file with the authority's certificate, in PEM format. Undefined if the clients connect without TLS. */
  readonly caFile?: string;
}

/** Starts etcd without TLS, or uses the servers in ETCD_ENDPOINTS. */
export function startServer(members: number): Promise<Server> {
  return startEtcd({ members, args: ARGUMENTS });
}

/**
 * Starts etcd with a server certificate of a new authority. The server requires no client certificate. The endpoints
 * have a host name, because Node.js warns of a TLS connection to an IP address with grpc-js. Resolves with undefined if
 * the benchmark cannot start etcd as a process.
 */
export async function startSecureServer(members: number): Promise<Server | undefined> {
  const authority = await Authority.create();
  const { cert, key } = await authority.issue({ names: ['localhost'] });
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-bench-'));
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text, { mode: 0o600 });
    return join(folder, name);
  };
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true });
  const tls = { certFile: write('server.pem', cert), keyFile: write('key.pem', key) };
  const caFile = write('ca.pem', authority.cert);
  let etcd: RunningEtcd;
  try {
    etcd = await startEtcd({ members, args: ARGUMENTS, tls });
  } catch (error) {
    removeFolder();
    throw error;
  }
  const close = async (): Promise<void> => {
    await etcd.close();
    removeFolder();
  };
  // Servers that `startEtcd` did not start as processes have no TLS.
  if (etcd.members.length > 0) {
    const endpoints = etcd.endpoints.map((endpoint) => endpoint.replace('127.0.0.1', 'localhost'));
    return { endpoints, version: etcd.version, caFile, close };
  }
  await close();
  return undefined;
}
