import { createHash, randomBytes } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import type { Client } from '../../../src/index.js';
import { saveSnapshot } from '../../../src/node.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { scriptedAnswers, scriptedServer } from '../../support/scripted-server.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

function newPath(): string {
  return join(temporaryFolder(), 'etcd.db');
}

/**
 * Starts a member that holds about three times as much data as `saveSnapshot` writes at once, and no data of other
 * tests.
 */
async function filled(): Promise<{ readonly etcd: Client; readonly endpoint: string }> {
  const { endpoints } = await ownEtcd();
  const etcd = openClient({ endpoints });
  for (const key of ['a', 'b', 'c']) await etcd.put(key, randomBytes(1_000_000));
  return { etcd, endpoint: endpoints[0] as string };
}

test('`saveSnapshot` replaces an existing file with a complete snapshot that only the owner may read', async () => {
  const path = newPath();
  const { etcd, endpoint } = await filled();
  for (let round = 0; round < 2; round += 1) {
    const size = await saveSnapshot(etcd, endpoint, path);
    expect([statSync(path).size, size % 512, statSync(path).mode & 0o777]).toEqual([size, 32, 0o600]);
  }
});

test('`saveSnapshot` keeps the existing file and leaves no other file behind when the snapshot is damaged', async () => {
  const path = newPath();
  const { etcd, endpoint: whole } = await filled();
  const size = await saveSnapshot(etcd, whole, path);
  const endpoint = await scriptedServer(
    scriptedAnswers(methods.maintenance.snapshot, async (stream) => {
      stream.send({ blob: new Uint8Array(512), remainingBytes: 0n });
      stream.send({ blob: new Uint8Array(32), remainingBytes: 0n });
      stream.end();
    }),
  );
  const saving = saveSnapshot(openClient({ endpoints: [endpoint] }), endpoint, path);
  expect(await errorOf(saving)).toMatchObject({ reason: 'SnapshotCorrupt' });
  expect([readdirSync(dirname(path)), statSync(path).size]).toEqual([['etcd.db'], size]);
});

test('`saveSnapshot` writes a valid file when five calls save to the same path at the same time', async () => {
  const path = newPath();
  const { etcd, endpoint } = await filled();
  const sizes = await Promise.all(Array.from({ length: 5 }, () => saveSnapshot(etcd, endpoint, path)));
  expect(sizes).toContain(statSync(path).size);
  const bytes = readFileSync(path);
  const digest = createHash('sha256').update(bytes.subarray(0, -32)).digest();
  expect(digest.equals(bytes.subarray(-32))).toBe(true);
  expect(readdirSync(dirname(path))).toEqual(['etcd.db']);
});

test('`saveSnapshot` follows a symbolic link to a file, and refuses a path that does not lead to a file', async () => {
  const path = newPath();
  const { etcd, endpoint } = await filled();
  writeFileSync(path, 'older');
  const link = join(dirname(path), 'link');
  symlinkSync(path, link);
  const size = await saveSnapshot(etcd, endpoint, link);
  expect(lstatSync(link).isSymbolicLink()).toBe(true);
  expect(statSync(path).size).toBe(size);
  const dangling = join(dirname(path), 'dangling');
  symlinkSync('/proc/self/fd/no-such', dangling);
  for (const none of [dirname(path), dangling, ''])
    expect(await errorOf(saveSnapshot(etcd, endpoint, none))).toMatchObject({ reason: 'InvalidInput' });
  expect(lstatSync(dangling).isSymbolicLink()).toBe(true);
});
