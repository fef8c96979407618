export { Client, type ClientOptions, checkFullClient, type EmbeddedClientOptions, type Keyspace } from './client.js';
export { type ConnectLimits, type ConnectOptions, connect } from './connect.js';
export { type EndpointHealth, type Health, type HealthOptions, health } from './health.js';
