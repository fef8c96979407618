import { invalidInput } from '../errors/etcd-error.js';
import type { Member } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import { type Endpoint, parseEndpoint } from '../host/endpoint.js';
import { describeType } from '../runtime/bytes.js';
import { after } from '../runtime/timers.js';
import type { Transport } from '../transport/transport.js';
import type { Channel } from './channel.js';
import type { CallOptions, Rpc } from './rpc.js';

/** Returns whether the client may use the endpoint with this URL, which a member advertises. */
export type AllowEndpoint = (url: string) => boolean;

/**
 * Reads the member list, and makes the channel use the endpoints that the members advertise. If the client may use none
 * of these, the channel keeps its endpoints. Returns the endpoints in use.
 */
export async function syncEndpoints(
  rpc: Rpc,
  channel: Channel,
  configured: readonly Endpoint[],
  allow: AllowEndpoint,
  options?: CallOptions,
): Promise<readonly string[]> {
  // The read is linearizable, because a member that is cut off from the cluster may have an outdated list.
  const { members } = await rpc.checkedCall(methods.cluster.memberList, { linearizable: true }, options, 'sync');
  const endpoints = memberEndpoints(members, configured, allow);
  if (endpoints.length > 0) channel.follow(endpoints);
  return channel.endpoints;
}

/**
 * Returns the endpoints that the started voting members advertise. Includes endpoints without TLS only if an endpoint
 * without TLS was configured, so that no member list can downgrade the client from `https:` to `http:`. An error that
 * `allow` throws reaches the caller.
 */
export function memberEndpoints(
  members: readonly Pick<Member, 'clientUrls' | 'isLearner'>[],
  configured: readonly Endpoint[],
  allow: AllowEndpoint,
): Endpoint[] {
  const plaintext = configured.some((endpoint) => !endpoint.tls && 'host' in endpoint.address);
  const byUrl = new Map<string, Endpoint>();
  for (const { clientUrls } of members.filter(({ isLearner }) => !isLearner)) {
    for (const endpoint of clientUrls.map(parseAdvertised)) {
      if (endpoint === undefined || (!endpoint.tls && !plaintext) || !isAllowed(endpoint.url, allow)) continue;
      byUrl.set(endpoint.url, endpoint);
    }
  }
  return [...byUrl.values()];
}

/** Throws if `allow` does not return a boolean: an `async` function returns a promise, which would count as true. */
function isAllowed(url: string, allow: AllowEndpoint): boolean {
  const allowed: unknown = allow(url);
  if (typeof allowed === 'boolean') return allowed;
  throw invalidInput('allowEndpoint', `${describeType(allowed)} for ${url}`, 'a boolean');
}

/** Returns undefined for a malformed URL, and for a Unix socket, because the socket is on the member's machine. */
function parseAdvertised(url: string): Endpoint | undefined {
  try {
    const endpoint = parseEndpoint(url, 'clientUrls');
    return 'host' in endpoint.address ? endpoint : undefined;
  } catch {
    return undefined;
  }
}

/** Calls `sync` at the first call, and then at an interval. Ignores failures, because the next `sync` may succeed. */
export function withAutoSync(inner: Transport, sync: () => Promise<unknown>, intervalMs: number): Transport {
  let isStarted = false;
  let isClosed = false;
  let stopTimer = (): void => {};
  const syncAndSchedule = async (): Promise<void> => {
    await sync().catch(() => {});
    if (!isClosed) stopTimer = after(intervalMs, () => void syncAndSchedule(), 'background');
  };
  const start = (): void => {
    if (isStarted || isClosed) return;
    isStarted = true;
    void syncAndSchedule();
  };
  return {
    unary: (call) => {
      start();
      return inner.unary(call);
    },
    stream: (call, handler) => {
      start();
      return inner.stream(call, handler);
    },
    close: () => {
      isClosed = true;
      stopTimer();
      return inner.close();
    },
  };
}
