import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import type { RunningEtcd } from '../../src/testing/index.js';
import { startEtcd } from '../etcd.js';
import type { Conformance } from './conformance.js';

/** Two servers with TLS. The second server requires client certificates. */
export class SecureServers implements AsyncDisposable {
  /** The endpoint of each server and the TLS options for it, for runtimes that accept such options. */
  readonly servers: Conformance['secure'];
  /** The certificate authority of both servers, in PEM. */
  readonly authority: string;
  readonly #etcds: readonly RunningEtcd[];
  readonly #folder: string;

  private constructor(
    servers: Conformance['secure'],
    authority: string,
    etcds: readonly RunningEtcd[],
    folder: string,
  ) {
    this.servers = servers;
    this.authority = authority;
    this.#etcds = etcds;
    this.#folder = folder;
  }

  static async start(): Promise<SecureServers> {
    const folder = mkdtempSync(join(tmpdir(), 'etcdwire-runtimes-'));
    const file = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    const authority = await Authority.create();
    const server = await authority.issue({ names: ['127.0.0.1'] });
    const { cert, key } = await authority.issue();
    const [certFile, keyFile] = [file('server.pem', server.cert), file('server.key', server.key)];
    const open = await startEtcd({ tls: { certFile, keyFile } });
    const closed = await startEtcd({ tls: { certFile, keyFile, clientCaFile: file('ca.pem', authority.cert) } });
    const ca = authority.cert;
    const servers = [
      { endpoint: open.endpoints[0] as string, tls: { ca } },
      { endpoint: closed.endpoints[0] as string, tls: { ca, cert, key } },
    ];
    return new SecureServers(servers, ca, [open, closed], folder);
  }

  /** The server that requires no client certificate, for runtimes that accept no TLS options. */
  get withoutOptions(): Conformance['secure'] {
    return this.servers.slice(0, 1).map(({ endpoint }) => ({ endpoint }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#etcds.map((etcd) => etcd.close()));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
