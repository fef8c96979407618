/**
 * Services that register and are found, as by Go's `naming/endpoints`.
 *
 * @module etcdwire/discovery
 */
export type { Endpoint } from './endpoint.js';
export { type Registration, Service, type Update } from './service.js';
