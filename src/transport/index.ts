/// <reference path="../runtime/globals.ts" preserve="true" />

/**
 * The types that authors of transports and interceptors need. This module exports only types.
 *
 * @module etcdwire/transport
 */
export type { Endpoint } from '../host/endpoint.js';
export type { Method, MethodKind } from '../protobuf/schema.js';
export type {
  AttemptObserver,
  EmbeddedTransportFactory,
  Metadata,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  TransportFactory,
  TransportOptions,
  UnaryCall,
} from './transport.js';
