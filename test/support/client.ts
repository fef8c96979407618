import { randomBytes } from 'node:crypto';
import { inject, onTestFinished } from 'vitest';
import { Client, type ClientOptions } from '../../src/index.js';

/** A client of the shared member, or of other endpoints, closed when the test ends. */
export function openClient({ endpoints = inject('endpoints'), ...options }: Partial<ClientOptions> = {}): Client {
  const client = new Client({ endpoints, ...options });
  onTestFinished(() => client.close());
  return client;
}

/** A name that no other test uses: tests share one server. */
export function unique(what = 'k'): string {
  return `${what}-${randomBytes(6).toString('hex')}`;
}
