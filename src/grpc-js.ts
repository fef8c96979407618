/// <reference path="./base/globals.ts" preserve="true" />

/**
 * A transport that uses `@grpc/grpc-js`, and a resolver that lets channels of `@grpc/grpc-js` find services in etcd.
 * `@grpc/grpc-js` must be installed along with this package.
 *
 * @module etcdwire/grpc-js
 */
export { registerGrpcResolver } from './extras/recipes/grpc-resolver.js';
export { grpcJs } from './extras/transports/grpc-js/transport.js';
