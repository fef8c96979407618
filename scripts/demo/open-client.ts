import { grpcJs } from '../../src/grpc-js.js';
import { Client } from '../../src/index.js';

/** A client over the transport that `ETCDWIRE_TRANSPORT` names: `http2`, the package's own and the default, or `grpc-js`. */
export function openClient(endpoints: readonly string[]): Client {
  const name = process.env.ETCDWIRE_TRANSPORT ?? 'http2';
  if (name !== 'http2' && name !== 'grpc-js')
    throw new Error(`ETCDWIRE_TRANSPORT: got "${name}"; allowed: http2, grpc-js`);
  return new Client({ endpoints, transport: name === 'grpc-js' ? grpcJs : undefined });
}
