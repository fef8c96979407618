import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { createWriteStream, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { describe, expect, test } from 'vitest';
import { concatBytes } from '../../../src/base/bytes.js';
import type { Client } from '../../../src/index.js';
import { localVersions } from '../../../src/testing/etcd/find.js';
import { openClient } from '../../support/client.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const VALUE = randomBytes(256 * 1024);

// Rule S32 (docs/semantics.md): The client checks a snapshot before it yields the snapshot's last bytes.
describe('a snapshot', () => {
  test('that a pipeline writes to a file consists of the database and the SHA-256 digest of the database', async () => {
    const { etcd, endpoint } = await filled();
    const file = join(temporaryFolder(), 'snapshot.db');
    await pipeline(etcd.maintenance.snapshot(endpoint), createWriteStream(file));
    const bytes = readFileSync(file);
    const [database, digest] = [bytes.subarray(0, -32), bytes.subarray(-32)];
    expect(database.length % 512).toBe(0);
    expect(sha256(database)).toEqual(digest);
    expect(database.includes(VALUE.subarray(0, 1024))).toBe(true);
  });

  test('is written to any object with a `write` method, one piece at a time', async () => {
    const { etcd, endpoint } = await filled();
    const chunks: Uint8Array[] = [];
    let writing = 0;
    const size = await etcd.maintenance.snapshot(endpoint).writeTo({
      write: async (chunk) => {
        expect(++writing).toBe(1);
        await new Promise((resolve) => setImmediate(resolve));
        chunks.push(chunk);
        writing -= 1;
      },
    });
    expect(chunks.length).toBeGreaterThan(20);
    expect(sha256(concatBytes(...chunks).subarray(0, -32))).toEqual(Buffer.from(concatBytes(...chunks).subarray(-32)));
    let streamed = 0;
    const stream = new WritableStream<Uint8Array>({
      write: (chunk) => {
        streamed += chunk.length;
      },
    });
    expect(await etcd.maintenance.snapshot(endpoint).writeTo(stream.getWriter())).toBe(streamed);
    expect(concatBytes(...chunks)).toHaveLength(size);
  });

  test('can be restored by etcdctl, unless a byte of the snapshot is changed', async (context) => {
    const version = (await localVersions()).find((minor) => minor === '3.5' || minor === '3.4');
    const { etcd, endpoint, etcdctl } = await filled(version);
    if (version === undefined || etcdctl === undefined) return context.skip('no etcdctl with "snapshot restore"');
    const file = join(temporaryFolder(), 'snapshot.db');
    await pipeline(etcd.maintenance.snapshot(endpoint), createWriteStream(file));
    const { header } = await etcd.range('k0');
    const run = (...args: string[]): string =>
      execFileSync(etcdctl, ['snapshot', ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    expect(JSON.parse(run('status', file, '--write-out=json'))).toMatchObject({ revision: Number(header.revision) });
    run('restore', file, `--data-dir=${join(temporaryFolder(), 'restored')}`);
    const bytes = readFileSync(file);
    bytes.writeUInt8(bytes.readUInt8(1000) ^ 1, 1000);
    writeFileSync(file, bytes);
    expect(() => run('restore', file, `--data-dir=${join(temporaryFolder(), 'other')}`)).toThrow(/sha256/i);
  });
});

/** Starts a server with a few megabytes of data, so that a snapshot has many pieces. */
async function filled(
  version?: '3.4' | '3.5',
): Promise<{ readonly etcd: Client; readonly endpoint: string; readonly etcdctl: string | undefined }> {
  const { endpoints, etcdctl } = await ownEtcd({ version });
  const etcd = openClient({ endpoints });
  for (let index = 0; index < 12; index += 1) await etcd.put(`k${index}`, VALUE);
  return { etcd, endpoint: endpoints[0] as string, etcdctl };
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest();
}
