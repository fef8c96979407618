import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { type Etcd, startEtcd } from '../../../scripts/etcd.js';
import type { Authority, Certificate } from './authority.js';

/** What a server's certificate has to be good for: where tests reach it. */
export const HERE = { names: ['127.0.0.1', 'localhost', '::1'] } as const;

/** A member that speaks TLS to its clients, and shows them whatever certificate a test wants. */
export class SecureEtcd {
  /** By address; `byName` is the same server. */
  readonly endpoint: string;
  readonly #etcd: Etcd;
  readonly #files: Files;

  private constructor(etcd: Etcd, files: Files) {
    this.endpoint = etcd.endpoints[0] as string;
    this.#etcd = etcd;
    this.#files = files;
  }

  /**
   * Undefined where the servers are not processes of ours.
   *
   * @param clients Vouches for the certificates of clients. Without it none is asked for.
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
    if (etcd.processes.length > 0) return secure;
    await secure.stop();
    return undefined;
  }

  get byName(): string {
    return this.endpoint.replace('127.0.0.1', 'localhost');
  }

  get port(): number {
    return Number(new URL(this.endpoint).port);
  }

  /** From now on: etcd reads its files anew at every handshake. */
  show(certificate: Certificate): void {
    this.#files.write('shown.pem', pemOf(certificate));
  }

  async stop(): Promise<void> {
    await this.#etcd.stop();
    this.#files.remove();
  }
}

/** Both in one file, so that what is shown changes at once. */
function pemOf({ cert, key }: Certificate): string {
  return `${cert}\n${key}`;
}

class Files {
  readonly #folder = mkdtempSync(join(tmpdir(), 'etcdwire-tls-'));

  path(name: string): string {
    return join(this.#folder, name);
  }

  /** Whoever reads meanwhile reads either what was there or all of this. */
  write(name: string, text: string): void {
    writeFileSync(this.path('next'), text);
    renameSync(this.path('next'), this.path(name));
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true });
  }
}

/**
 * One member for all tests of a file or a block, stopped after them; before each it shows a good certificate again.
 * Where there can be none the tests are skipped.
 */
export function useSecureEtcd(authority: Authority, options: { readonly clients?: boolean } = {}): () => SecureEtcd {
  let etcd: SecureEtcd | undefined;
  let good: Certificate;
  beforeAll(async () => {
    good = await authority.issue(HERE);
    etcd = await SecureEtcd.start(good, options.clients ? authority : undefined);
  });
  beforeEach((context) => {
    if (etcd === undefined) context.skip('the servers are not ours');
    etcd?.show(good);
  });
  afterAll(() => etcd?.stop());
  return () => etcd as SecureEtcd;
}
