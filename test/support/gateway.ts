import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { inject, onTestFinished } from 'vitest';
import type { Certificate } from '../../packages/cli/src/proxy/authority.js';
import { gateway } from '../../src/gateway.js';
import { Client, type ClientOptions } from '../../src/index.js';

/**
 * Opens a client that uses the HTTP/JSON gateway of the etcd member that all tests share. The client is closed when the
 * test ends.
 */
export function openGateway(options: Partial<ClientOptions> = {}): Client {
  const client = new Client({
    endpoints: inject('endpoints'),
    auth: { allowPlaintext: true },
    transport: gateway(),
    ...options,
  });
  onTestFinished(() => client.close({ drainMs: 50 }));
  return client;
}

/**
 * Starts an HTTP server, with TLS if it gets a certificate, and stops it when the test ends. Resolves with the server's
 * URL.
 */
export async function httpServer(listener: RequestListener, certificate?: Certificate): Promise<string> {
  const server = certificate === undefined ? createServer(listener) : createTlsServer(certificate, listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http${certificate === undefined ? '' : 's'}://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
