import { subscribe } from 'node:diagnostics_channel';
import { Channel } from '../../../src/channel/channel.js';
import { Client } from '../../../src/client.js';
import { parseEndpoint } from '../../../src/host/endpoint.js';
import { Keyspace } from '../../../src/keyspace.js';
import { defaultTransport } from '../../../src/transport/default-transport.js';
import { TRANSPORT_DEFAULTS } from '../../../src/transport/transport.js';
import type { Contender } from './contender.js';
import { contenderOf } from './etcdwire.js';

/** The same client, from the same sources, with its hooks in one state or another. */
export const HOOKED = ['without hooks', 'hooks off', 'an interceptor', 'a subscriber'] as const;
export type HookedName = (typeof HOOKED)[number];

export function openHooked(name: HookedName, endpoint: string): Contender {
  const endpoints = [endpoint];
  switch (name) {
    case 'without hooks':
      return contenderOf(withoutHooks(endpoint));
    case 'hooks off':
      return contenderOf(new Client({ endpoints }));
    case 'an interceptor':
      return contenderOf(new Client({ endpoints, interceptors: [{ unary: (call, next) => next(call) }] }));
    case 'a subscriber':
      for (const channel of ['etcdwire:call:start', 'etcdwire:call:end']) subscribe(channel, () => {});
      return contenderOf(new Client({ endpoints }));
  }
}

/** What a client would be if calls could not be looked at: its keys straight over the channel, with its defaults. */
function withoutHooks(endpoint: string): Keyspace {
  const options = { ...TRANSPORT_DEFAULTS, tls: undefined };
  const closed = new AbortController().signal;
  return new Keyspace({
    transport: new Channel([parseEndpoint(endpoint, 'endpoint')], (each) => defaultTransport(each, options)),
    settings: { timeoutMs: 15_000, renewsTokens: false, closed, logger: undefined },
    kv: { maxTxnOps: 128, maxReceiveBytes: options.maxReceiveBytes },
    closers: new Set(),
  });
}
