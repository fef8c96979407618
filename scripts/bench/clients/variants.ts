import { subscribe } from 'node:diagnostics_channel';
import { CoreClient } from '../../../src/client/core-client.js';
import type { KeyspaceClient } from '../../../src/client/keyspace.js';
import { coreLayers } from '../../../src/client/layers.js';
import { Client } from '../../../src/extras/full/client.js';
import type { BenchClient, HookedName, RetryingName } from './bench-client.js';
import { benchClientOf } from './etcdwire.js';

export function openVariant(name: HookedName | RetryingName, endpoint: string): BenchClient {
  const endpoints = [endpoint];
  switch (name) {
    case 'without hooks':
      return benchClientOf(withoutHooks(endpoint));
    case 'hooks unused':
      return benchClientOf(new Client({ endpoints }));
    case 'an interceptor':
      return benchClientOf(new Client({ endpoints, interceptors: [{ unary: (call, next) => next(call) }] }));
    case 'without retryWrites':
    case 'with retryWrites':
      return benchClientOf(new Client({ endpoints, retryWrites: name === 'with retryWrites' }));
    case 'a subscriber':
      for (const channel of ['etcdwire:call:start', 'etcdwire:call:end']) subscribe(channel, () => {});
      return benchClientOf(new Client({ endpoints }));
  }
}

/**
 * Opens a client without interceptors and diagnostics channels. Its calls go directly to the channel, with the default
 * options.
 */
function withoutHooks(endpoint: string): KeyspaceClient {
  const core = coreLayers({ endpoints: [endpoint] });
  return new CoreClient(undefined, { ...core, transport: core.channel });
}
