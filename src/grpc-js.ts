/**
 * A transport over `@grpc/grpc-js`, which is to be installed beside the package.
 *
 * @module etcdwire/grpc-js
 */
export { grpcJs } from './transport/grpc-js/transport.js';
