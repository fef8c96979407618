export {
  type AddressResolver,
  type DiscoverSrvOptions,
  DnsFollower,
  discoverSrv,
  type FollowDnsOptions,
  followDns,
  type ResolvedEndpoints,
  type ResolveEndpointsOptions,
  resolveEndpoints,
  type SrvRecord,
  type SrvResolver,
} from './dns.js';
export { parseDuration } from './duration.js';
export { fileStore } from './file-store.js';
export { BOOLEANS, endpointsIn, loginOf, parseBoolean } from './flag-values.js';
export { type FromEnvOptions, type FromEnvWithDiscoveryOptions, fromEnv, fromEnvWithDiscovery } from './from-env.js';
export { type SaveSnapshotOptions, saveSnapshot } from './save-snapshot.js';
