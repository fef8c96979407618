/**
 * Service registration and discovery, compatible with Go's `naming/endpoints`.
 *
 * @module etcdwire/discovery
 */
export { type Registration, Service, type ServiceEndpoint, type Update } from './service.js';
