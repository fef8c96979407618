/**
 * A transport that uses `@grpc/grpc-js`. Install that package to use it.
 *
 * @module etcdwire/grpc-js
 */
export { grpcJs } from './transport/grpc-js/transport.js';
