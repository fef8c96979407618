export type { Endpoint } from './endpoint.js';
export { type Registration, Service, type Update } from './service.js';
