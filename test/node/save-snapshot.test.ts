import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import { saveSnapshot } from '../../src/node/index.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { scriptedAnswers, scriptedServer } from '../support/scripted-server.js';

function newPath(): string {
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-snapshot-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'etcd.db');
}

test('a snapshot is saved whole, for its owner alone, in place of an older one', async () => {
  const [etcd, path] = [openClient(), newPath()];
  for (let round = 0; round < 2; round += 1) {
    const size = await saveSnapshot(etcd, etcd.endpoints[0] as string, path);
    expect([statSync(path).size, size % 512, statSync(path).mode & 0o777]).toEqual([size, 32, 0o600]);
  }
  expect(existsSync(`${path}.part`)).toBe(false);
});

test('of a snapshot that is not whole nothing is left, and the one of before stays', async () => {
  const path = newPath();
  const etcd = openClient();
  const size = await saveSnapshot(etcd, etcd.endpoints[0] as string, path);
  const endpoint = await scriptedServer(
    scriptedAnswers(methods.maintenance.snapshot, async (stream) => {
      stream.send({ blob: new Uint8Array(512), remainingBytes: 0n });
      stream.send({ blob: new Uint8Array(32), remainingBytes: 0n });
      stream.end();
    }),
  );
  const saving = saveSnapshot(openClient({ endpoints: [endpoint] }), endpoint, path);
  expect(await errorOf(saving)).toMatchObject({ reason: 'SnapshotCorrupt' });
  expect([existsSync(`${path}.part`), statSync(path).size]).toEqual([false, size]);
});
