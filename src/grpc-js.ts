/**
 * A transport that uses `@grpc/grpc-js`, which must be installed along with this package.
 *
 * @module etcdwire/grpc-js
 */
export { grpcJs } from './transport/grpc-js/transport.js';
