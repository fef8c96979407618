/// <reference path="./base/globals.ts" preserve="true" />

/**
 * The types that authors of transports and interceptors need. This module exports only types.
 *
 * @module etcdwire/transport
 */
export type { Endpoint } from './host/index.js';
export type {
  AttemptObserver,
  EmbeddedTransportFactory,
  Metadata,
  Method,
  MethodKind,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  TransportFactory,
  TransportOptions,
  UnaryCall,
} from './wire/index.js';
