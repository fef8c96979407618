export { type Fetch, type GatewayOptions, gatewayTransport } from './factory.js';
export { gatewayMethods } from './methods-by-path.js';
