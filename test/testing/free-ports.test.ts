import { execFile } from 'node:child_process';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { freePorts } from '../../src/testing/etcd/free-ports.js';

const MODULE = fileURLToPath(new URL('../../src/testing/etcd/free-ports.ts', import.meta.url));

test('`freePorts` returns distinct free ports below the port range of outgoing connections', async () => {
  const ports = await freePorts(300);
  expect(new Set(ports).size).toBe(300);
  expect(Math.max(...ports)).toBeLessThan(32_768);
  const servers = ports.map((port) => createServer().listen(port, '127.0.0.1'));
  await Promise.all(servers.map((server) => new Promise((resolve) => server.once('listening', resolve))));
  for (const server of servers) server.close();
});

// Regression: a killed etcd member could not start again, because another test's server had taken the member's port.
test('`freePorts` returns no port that it has given to another process, even if the port is not in use', async () => {
  const own = await freePorts(60);
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...['--import', 'tsx', '--input-type=module', '-e'],
    `const { freePorts } = await import(${JSON.stringify(MODULE)}); console.log((await freePorts(3_000)).join());`,
  ]);
  const others = new Set(stdout.trim().split(',').map(Number));
  expect(others.size).toBe(3_000);
  expect(own.filter((port) => others.has(port))).toEqual([]);
});
