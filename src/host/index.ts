export { type Endpoint, parseEndpoint, parseEndpoints, showUrl } from './endpoint.js';
export {
  type AsyncContext,
  type ByteStream,
  type ByteStreamEvents,
  type CallerStream,
  type DuplexStream,
  failedByteStream,
  isWebStreams,
  type OpenByteStream,
  type WebReader,
  type WebStreams,
  type WebWriter,
} from './host.js';
export { Sha256 } from './sha256.js';
export { checkTls, opensslReason, serverNameOf, type TlsOptions, type TlsSource, tlsForDial } from './tls.js';
