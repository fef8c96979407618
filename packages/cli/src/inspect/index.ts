export { ByteQueue } from './byte-queue.js';
export { CaptureCutError, CaptureError, CaptureReader } from './capture-reader.js';
export { beginsHttp2, beginsTls, ConnectionDecoder } from './connection-decoder.js';
export { explain, headerSpans, type Span } from './explain.js';
export {
  type DecodedFrame,
  FrameDecoder,
  headerIn,
  messagesIn,
  type StreamMethods,
  streamOf,
  type WireFrame,
  type WireMessage,
} from './frames.js';
export { Http1Decoder, Http1Requests } from './http1.js';
export { pathOf } from './http1-head.js';
export { kubernetesName, kubernetesValue } from './kubernetes.js';
export { PcapngWriter, type TcpAddress, type WrittenConnection } from './pcapng-writer.js';
export { mayContainSecrets, SECRET_NAME, withoutSecret, withoutUrlSecrets } from './secrets.js';
export { tapped } from './tapped.js';
