export { type Fetch, type GatewayOptions, gatewayTransport } from './factory.js';
export { gatewayPath } from './rpcs.js';
