import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onPath } from '../../../scripts/etcd/binary.js';
import { run } from '../../../scripts/etcd/run.js';

export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** A certificate that vouches for itself, for 127.0.0.1 and the names given; undefined where there is no openssl. */
export async function selfSigned(...names: readonly string[]): Promise<Certificate | undefined> {
  if (onPath('openssl') === undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-tls-'));
  try {
    const subjects = ['IP:127.0.0.1', ...names.map((name) => `DNS:${name}`)].join(',');
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    const what = ['-subj', '/CN=peer', '-addext', `subjectAltName=${subjects}`, '-days', '1'];
    await run('openssl', ['req', '-x509', ...curve, ...what, '-keyout', 'key.pem', '-out', 'cert.pem'], folder);
    const read = (file: string): string => readFileSync(join(folder, file), 'utf8');
    return { cert: read('cert.pem'), key: read('key.pem') };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
