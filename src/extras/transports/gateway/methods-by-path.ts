import { type AnyMethod, methodByPath } from '../json/method-table.js';
import { gatewayPath } from './rpcs.js';

/**
 * The paths that the gateway offers besides the paths that the client of this package uses: `additional_bindings` in
 * etcd's `rpc.proto`.
 */
const OTHER_PATHS = {
  '/v3/kv/lease/revoke': '/v3/lease/revoke',
  '/v3/kv/lease/timetolive': '/v3/lease/timetolive',
  '/v3/kv/lease/leases': '/v3/lease/leases',
} as const;

/** Returns the methods of etcd's JSON gateway by their HTTP paths. */
export function gatewayMethods(): ReadonlyMap<string, AnyMethod> {
  const found = new Map<string, AnyMethod>();
  for (const method of methodByPath.values()) {
    const path = gatewayPath(method);
    if (path !== undefined) found.set(path, method);
  }
  for (const [other, path] of Object.entries(OTHER_PATHS)) found.set(other, found.get(path) as AnyMethod);
  return found;
}
