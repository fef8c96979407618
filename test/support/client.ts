import { randomBytes } from 'node:crypto';
import { inject, onTestFinished } from 'vitest';
import { Client, type ClientOptions } from '../../src/index.js';

/** Opens a client of the shared member or of other endpoints. It is closed when the test ends. */
export function openClient({ endpoints = inject('endpoints'), ...options }: Partial<ClientOptions> = {}): Client {
  const client = new Client({ endpoints, ...options });
  onTestFinished(() => client.close());
  return client;
}

/** A name that no other test uses, because the tests share one server. */
export function unique(prefix = 'k'): string {
  return `${prefix}-${randomBytes(6).toString('hex')}`;
}
