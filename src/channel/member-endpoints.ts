import { invalidInput } from '../errors/etcd-error.js';
import type { Member } from '../gen/etcdserverpb/rpc.js';
import { type Endpoint, parseEndpoint } from '../host/endpoint.js';
import { describeType } from '../runtime/bytes.js';

/** Which of the endpoints that members advertise may be used. */
export type AllowEndpoint = (url: string) => boolean;

/**
 * Where the members say that clients reach them: those that vote and are started. Without TLS only where an endpoint
 * without TLS was configured, so that nothing falls from `https:` to `http:`. Throws what `allow` throws.
 */
export function memberEndpoints(
  members: readonly Pick<Member, 'clientUrls' | 'isLearner'>[],
  configured: readonly Endpoint[],
  allow: AllowEndpoint,
): Endpoint[] {
  const plaintext = configured.some((endpoint) => !endpoint.tls && 'host' in endpoint.address);
  const byUrl = new Map<string, Endpoint>();
  for (const { clientUrls } of members.filter(({ isLearner }) => !isLearner)) {
    for (const endpoint of clientUrls.map(advertised)) {
      if (endpoint === undefined || (!endpoint.tls && !plaintext) || !isAllowed(endpoint.url, allow)) continue;
      byUrl.set(endpoint.url, endpoint);
    }
  }
  return [...byUrl.values()];
}

/** A promise would be as good as a yes. */
function isAllowed(url: string, allow: AllowEndpoint): boolean {
  const allowed: unknown = allow(url);
  if (typeof allowed !== 'boolean')
    throw invalidInput('allowEndpoint', `${describeType(allowed)} for ${url}`, 'a boolean');
  return allowed;
}

/** Undefined for what nobody can reach; a socket file of another machine is such. */
function advertised(url: string): Endpoint | undefined {
  try {
    const endpoint = parseEndpoint(url, 'clientUrls');
    return 'host' in endpoint.address ? endpoint : undefined;
  } catch {
    return undefined;
  }
}
