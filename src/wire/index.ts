export { connectFailed } from './connect-failed.js';
export { defaultTransport } from './default-transport.js';
export { type Http2Options, http2 } from './http2/factory.js';
export { PeerLimits, ReceiveWindow, SendFlow } from './http2/flow-control.js';
export {
  CONNECTION_PREFACE,
  ConnectionError,
  DEFAULT_WINDOW_BYTES,
  ErrorCode,
  errorCodeName,
  Flag,
  FRAME_HEADER_BYTES,
  FrameType,
  MAX_STREAM_ID,
  readUint31,
  StreamError,
} from './http2/frame.js';
export { FrameReader } from './http2/frame-reader.js';
export { FrameWriter, writeFrameHeader } from './http2/frame-writer.js';
export { HeaderReader, problemOfField } from './http2/header-reader.js';
export {
  entryBytes,
  type FixedFields,
  fixedFields,
  type HeaderField,
  type HeaderList,
  HpackDecoder,
  HpackEncoder,
  literalString,
  neverIndexedBytes,
  STATIC_TABLE,
  writeNeverIndexed,
} from './http2/hpack.js';
export { http2Over } from './http2/http2-transport.js';
export { type FrameTarget, PeerFrames, type PeerStream } from './http2/peer-frames.js';
export { errorOfReset, percentDecoded } from './http2/response.js';
export {
  CONNECTION_WINDOW_BYTES,
  MAX_HEADER_LIST_BYTES,
  ownSettings,
  PeerSettings,
  SETTING_BYTES,
  Setting,
  STREAM_WINDOW_BYTES,
} from './http2/settings.js';
export {
  checkMetadata,
  decodeResponse,
  encodeRequest,
  isPrintable,
  MESSAGE_PREFIX_BYTES,
  MessageAssembler,
  type MessageReceiver,
  responseTooLarge,
  SendQueue,
  writeMessage,
} from './messages.js';
export { decode, MAX_DEPTH, Reader } from './protobuf/reader.js';
export {
  type Codec,
  type FieldDescriptor,
  type FieldType,
  fieldsFromTexts,
  type Method,
  type MethodKind,
  type ScalarType,
} from './protobuf/schema.js';
export { tableCodec } from './protobuf/table-codec.js';
export { encode, type Init } from './protobuf/writer.js';
export {
  type AttemptObserver,
  bothObservers,
  type Copy,
  type EmbeddedTransportFactory,
  forwardStream,
  type Guarding,
  type Metadata,
  type OutgoingStream,
  type StreamCall,
  type StreamHandler,
  TRANSPORT_DEFAULTS,
  type Transport,
  type TransportFactory,
  type TransportOptions,
  type UnaryCall,
} from './transport.js';
