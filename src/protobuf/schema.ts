import type { Codec } from './codec.js';

/** Whose side of a call is a stream of messages. */
export type MethodKind = 'unary' | 'server-streaming' | 'bidi-streaming';

/** One RPC of one service. */
export interface Method<Request, Response, Kind extends MethodKind = MethodKind> {
  /** gRPC's `:path`. */
  readonly path: `/${string}/${string}`;
  readonly kind: Kind;
  readonly request: Codec<Request>;
  readonly response: Codec<Response>;
  /**
   * Twice does what once does, for all that a client can see: it may be sent again after a failure that leaves open
   * whether it was processed.
   */
  readonly repeatable: boolean;
}

/** Scalar types of the language that etcd's interface uses. */
export type ScalarType = 'bool' | 'bytes' | 'int64' | 'string' | 'uint32' | 'uint64';

/** What the value of a field is: a scalar, or a message or an enum by its full name. */
export type FieldType = { readonly scalar: ScalarType } | { readonly message: string } | { readonly enum: string };

/** A field of a message, as the .proto file declares it. */
export interface FieldDescriptor {
  readonly number: number;
  /** As in the .proto file, such as `create_revision`. */
  readonly name: string;
  /** As in the message's type here, such as `createRevision`. */
  readonly property: string;
  readonly type: FieldType;
  readonly repeated?: true;
  /** The property that holds the oneof which the field is a case of. */
  readonly oneof?: string;
}
