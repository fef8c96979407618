import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import type { Authority, Certificate } from '../../../packages/cli/src/proxy/authority.js';
import { startEtcd } from '../../../scripts/etcd.js';
import type { RunningEtcd } from '../../../src/testing/index.js';

/** The names for a server certificate. Tests use these names to connect to the server. */
export const HERE = { names: ['127.0.0.1', 'localhost', '::1'] } as const;

/** A member that uses TLS. A test can replace its certificate at any time. */
export class SecureEtcd {
  /** The endpoint with an IP address. `byName` is the endpoint of the same server with a host name. */
  readonly endpoint: string;
  readonly #etcd: RunningEtcd;
  readonly #files: Files;

  private constructor(etcd: RunningEtcd, files: Files) {
    this.endpoint = etcd.endpoints[0] as string;
    this.#etcd = etcd;
    this.#files = files;
  }

  /**
   * Starts a member with this certificate. Resolves with undefined if `startEtcd` cannot start etcd as a process.
   *
   * @param clients The authority that issues client certificates. If undefined, the server requires no client
   * certificate.
   */
  static async start(certificate: Certificate, clients?: Authority): Promise<SecureEtcd | undefined> {
    const files = new Files();
    files.write('shown.pem', pemOf(certificate));
    if (clients !== undefined) files.write('clients.pem', clients.cert);
    const shown = files.path('shown.pem');
    const etcd = await startEtcd({
      tls: {
        certFile: shown,
        keyFile: shown,
        clientCaFile: clients === undefined ? undefined : files.path('clients.pem'),
      },
    });
    const secure = new SecureEtcd(etcd, files);
    if (etcd.members.length > 0) return secure;
    await secure.stop();
    return undefined;
  }

  get byName(): string {
    return this.endpoint.replace('127.0.0.1', 'localhost');
  }

  get port(): number {
    return Number(new URL(this.endpoint).port);
  }

  /** Replaces the server's certificate. etcd reads the file again for every handshake. */
  show(certificate: Certificate): void {
    this.#files.write('shown.pem', pemOf(certificate));
  }

  async stop(): Promise<void> {
    await this.#etcd.close();
    this.#files.remove();
  }
}

/** Returns the certificate and the key as the text of one file, so that one rename changes both. */
function pemOf({ cert, key }: Certificate): string {
  return `${cert}\n${key}`;
}

class Files {
  readonly #folder = mkdtempSync(join(tmpdir(), 'etcdwire-tls-'));

  path(name: string): string {
    return join(this.#folder, name);
  }

  /** Writes a file atomically: a concurrent reader sees either the old or the new content. */
  write(name: string, text: string): void {
    writeFileSync(this.path('next'), text);
    renameSync(this.path('next'), this.path(name));
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true });
  }
}

/**
 * Starts one member for all tests of a file or a `describe` block, and stops the member after the last test. The member
 * has a valid certificate at the start of each test. The tests are skipped if `startEtcd` cannot start etcd as a
 * process.
 */
export function useSecureEtcd(authority: Authority, options: { readonly clients?: boolean } = {}): () => SecureEtcd {
  let etcd: SecureEtcd | undefined;
  let good: Certificate;
  beforeAll(async () => {
    good = await authority.issue(HERE);
    etcd = await SecureEtcd.start(good, options.clients ? authority : undefined);
  });
  beforeEach((context) => {
    if (etcd === undefined) context.skip('etcd members cannot be started as processes');
    etcd?.show(good);
  });
  afterAll(() => etcd?.stop());
  return () => etcd as SecureEtcd;
}
