import { randomBytes } from 'node:crypto';
import { inject, onTestFinished } from 'vitest';
import { Client, type ClientOptions } from '../../src/index.js';

/**
 * Opens a client for the etcd member that all tests share, or for the given endpoints. The client is closed when the
 * test ends.
 */
export function openClient({ endpoints = inject('endpoints'), ...options }: Partial<ClientOptions> = {}): Client {
  const client = new Client({ endpoints, ...options });
  onTestFinished(() => client.close());
  return client;
}

/** Returns a name that no other test uses. Tests need unique names because they share one server. */
export function unique(prefix = 'k'): string {
  return `${prefix}-${randomBytes(6).toString('hex')}`;
}
