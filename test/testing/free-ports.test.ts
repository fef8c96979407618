import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { freePorts } from '../../src/testing/free-ports.js';

test('freePorts returns different free ports below the range of outgoing connections', async () => {
  const ports = await freePorts(300);
  expect(new Set(ports).size).toBe(300);
  expect(Math.max(...ports)).toBeLessThan(32_768);
  const servers = ports.map((port) => createServer().listen(port, '127.0.0.1'));
  await Promise.all(servers.map((server) => new Promise((resolve) => server.once('listening', resolve))));
  for (const server of servers) server.close();
});
