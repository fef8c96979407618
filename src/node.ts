/// <reference path="./base/globals.ts" preserve="true" />

/**
 * Functions that need a file system, environment variables or DNS. They run only on Node.js, Bun and Deno.
 *
 * @module etcdwire/node
 */
export {
  type AddressResolver,
  type DiscoverSrvOptions,
  DnsFollower,
  discoverSrv,
  type FollowDnsOptions,
  type FromEnvOptions,
  type FromEnvWithDiscoveryOptions,
  fileStore,
  followDns,
  fromEnv,
  fromEnvWithDiscovery,
  type ResolvedEndpoints,
  type ResolveEndpointsOptions,
  resolveEndpoints,
  type SaveSnapshotOptions,
  type SrvRecord,
  type SrvResolver,
  saveSnapshot,
} from './extras/node/index.js';
