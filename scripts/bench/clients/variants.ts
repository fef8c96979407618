import { subscribe } from 'node:diagnostics_channel';
import { Channel } from '../../../src/channel/channel.js';
import { Client } from '../../../src/client/client.js';
import { KeyspaceClient } from '../../../src/client/keyspace.js';
import { parseEndpoint } from '../../../src/host/endpoint.js';
import { collectStats } from '../../../src/interceptors/stats.js';
import { NO_BYTES } from '../../../src/runtime/bytes.js';
import { defaultTransport } from '../../../src/transport/default-transport.js';
import { TRANSPORT_DEFAULTS } from '../../../src/transport/transport.js';
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
    case 'collectStats':
      return benchClientOf(new Client({ endpoints, interceptors: [collectStats()] }));
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
  const options = { ...TRANSPORT_DEFAULTS, tls: undefined };
  const closed = new AbortController().signal;
  return new KeyspaceClient({
    transport: new Channel([parseEndpoint(endpoint, 'endpoint')], (each) => defaultTransport(each, options)),
    prefix: NO_BYTES,
    settings: { timeoutMs: 15_000, renewsTokens: false, closed, logger: undefined },
    kv: { maxTxnOps: 128, maxReceiveBytes: options.maxReceiveBytes },
    closers: new Set(),
    guardPrefix: NO_BYTES,
  });
}
