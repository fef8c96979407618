import { randomBytes } from 'node:crypto';
import { inject, onTestFinished } from 'vitest';
import { Client, type ClientOptions } from '../../src/index.js';

/**
 * Opens a client for the etcd member that all tests share, or for the given endpoints. The client is closed when the
 * test ends. The client may add users with passwords, because the servers of the tests listen at loopback without TLS.
 */
export function openClient({ endpoints, ...options }: Partial<ClientOptions> = {}): Client {
  const client = new Client({
    endpoints: endpoints ?? inject('endpoints'),
    auth: { allowPlaintext: true },
    ...options,
  });
  // A short drain, because many tests end while they hold locks or while a server does not answer.
  onTestFinished(() => client.close({ drainMs: 50 }));
  return endpoints === undefined ? withoutCompaction(client) : client;
}

/** Makes the client of the shared server refuse compactions, because other tests read the history of this server. */
function withoutCompaction(client: Client): Client {
  const compact = client.compact.bind(client);
  return Object.assign(client, {
    compact: (...args: Parameters<Client['compact']>) => {
      if (args[0] > 1n) throw new Error('all tests share this server; use `ownEtcd` in a test that compacts');
      return compact(...args);
    },
  });
}

/** Returns a name that no other test uses. Tests need unique names because they share one server. */
export function unique(prefix = 'k'): string {
  return `${prefix}-${randomBytes(6).toString('hex')}`;
}
