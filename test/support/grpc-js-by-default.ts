/** Stands for src/transport/default-transport.ts where the tests run over grpc-js. */
export { grpcJs as defaultTransport } from '../../src/transport/grpc-js/transport.js';
