import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';

const DEMO = fileURLToPath(new URL('../../scripts/demo.ts', import.meta.url));

test('without an etcd, the demo says so, runs on an etcd in memory, and ends with a correct ledger', async () => {
  const empty = mkdtempSync(join(tmpdir(), 'etcdwire-demo-'));
  onTestFinished(() => rmSync(empty, { recursive: true }));
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--import', 'tsx', DEMO], {
    env: {
      PATH: empty,
      XDG_CACHE_HOME: empty,
      ETCD_MIRROR: 'http://127.0.0.1:1',
      DOCKER_HOST: 'tcp://127.0.0.1:1',
    },
  });
  expect(stderr).toContain('found no etcd. Tried:');
  expect(stderr).toContain('The demo uses an etcd in memory instead.');
  expect(stdout).toContain('Three processes, one lock, an etcd in memory');
  expect(stdout).toContain('The ledger is correct');
});
