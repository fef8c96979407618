export { grpcJs } from './transport/grpc-js/transport.js';
