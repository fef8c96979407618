import { after, describeType, EtcdError, invalidInput } from '../base/index.js';
import type { Member } from '../gen/etcdserverpb/rpc.js';
import * as clusterMethods from '../gen/methods/cluster.js';
import { type Endpoint, parseEndpoint } from '../host/index.js';
import type { Transport } from '../wire/index.js';
import type { Channel } from './channel.js';
import type { CallOptions, Rpc } from './rpc.js';

/** A function that decides whether the client may use the endpoint URL that a member advertises. */
export type AllowEndpoint = (url: string) => boolean;

/** Maximum number of endpoints that a member list may advertise. Clusters have at most a dozen members. */
const MAX_ADVERTISED = 100;

/**
 * Reads the member list, and makes the channel use the endpoints that the members advertise. If the client may use none
 * of the advertised endpoints, the channel keeps its endpoints. Returns the endpoints in use.
 */
export async function syncEndpoints(
  rpc: Rpc,
  channel: Channel,
  allow: AllowEndpoint,
  options?: CallOptions,
): Promise<readonly string[]> {
  // The read is linearizable, because a member that is cut off from the cluster may have an outdated list.
  const before = channel.configured;
  const { members } = await rpc.checkedCall(clusterMethods.memberList, { linearizable: true }, options, 'sync');
  const endpoints = memberEndpoints(members, before, allow);
  // If `setEndpoints` has replaced the endpoints during the read or in `allow`, the member list of the former endpoints
  // must not replace the new endpoints.
  if (endpoints.length > 0 && channel.configured === before) channel.follow(endpoints);
  return channel.endpoints;
}

/**
 * Returns those endpoints of the started voting members that `allow` accepts. Includes `http:` endpoints only if an
 * `http:` endpoint was configured, so that no member list can downgrade the client from `https:` to `http:`. An error
 * that `allow` throws reaches the caller.
 *
 * @throws EtcdError with reason `MalformedMessage` if the members advertise more than `MAX_ADVERTISED` endpoints.
 */
export function memberEndpoints(
  members: readonly Pick<Member, 'clientUrls' | 'isLearner'>[],
  configured: readonly Endpoint[],
  allow: AllowEndpoint,
): Endpoint[] {
  const advertised = members.reduce((count, { clientUrls }) => count + clientUrls.length, 0);
  if (advertised > MAX_ADVERTISED)
    throw new EtcdError(
      `sync: the member list has ${advertised} client URLs; allowed: at most ${MAX_ADVERTISED}; the client keeps its endpoints`,
      { code: 'Internal', reason: 'MalformedMessage', outcome: 'rejected', method: clusterMethods.memberList.path },
    );
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

/**
 * Returns the result of `allow`. Throws if the result is not a boolean, because the promise of an `async` function
 * would count as true.
 */
function isAllowed(url: string, allow: AllowEndpoint): boolean {
  const allowed: unknown = allow(url);
  if (typeof allowed === 'boolean') return allowed;
  const given = `a function that returned ${describeType(allowed)} for ${url}`;
  throw invalidInput('allowEndpoint', given, 'a function that returns true or false');
}

/** Returns undefined if the URL is malformed, or names a Unix socket, which exists only on the member's machine. */
function parseAdvertised(url: string): Endpoint | undefined {
  // Members advertise URLs. For a text without a scheme, `parseEndpoint` would assume `http:`.
  if (!url.includes('://')) return undefined;
  try {
    const endpoint = parseEndpoint(url, 'clientUrls');
    return 'host' in endpoint.address ? endpoint : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns a transport that calls `sync` at its first call or stream, and again `intervalMs` milliseconds after the end
 * of each call of `sync`. Ignores failures of `sync`.
 */
export function withAutoSync(inner: Transport, sync: () => Promise<unknown>, intervalMs: number): Transport {
  let isStarted = false;
  let closed = false;
  let stopTimer = (): void => {};
  const syncAndSchedule = async (): Promise<void> => {
    await sync().catch(() => {});
    if (!closed) stopTimer = after(intervalMs, () => void syncAndSchedule(), 'background');
  };
  const startSyncing = (): void => {
    if (isStarted || closed) return;
    isStarted = true;
    void syncAndSchedule();
  };
  return {
    unary: (call) => {
      startSyncing();
      return inner.unary(call);
    },
    stream: (call, handler) => {
      startSyncing();
      return inner.stream(call, handler);
    },
    close: () => {
      closed = true;
      stopTimer();
      return inner.close();
    },
  };
}
