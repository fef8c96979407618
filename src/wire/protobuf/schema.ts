import type { Codec } from './codec.js';

/** Which side of a call may send more than one message: neither side, the server, or both sides. */
export type MethodKind = 'unary' | 'server-streaming' | 'bidi-streaming';

/** One RPC of a service. */
export interface Method<Request, Response, Kind extends MethodKind = MethodKind> {
  /** gRPC path, such as `/etcdserverpb.KV/Put`. */
  readonly path: `/${string}/${string}`;
  readonly kind: Kind;
  readonly request: Codec<Request>;
  readonly response: Codec<Response>;
  /** Whether a call is idempotent: safe to resend if the outcome of an attempt is unknown. Default: false. */
  readonly repeatable?: boolean | undefined;
}

/** The scalar types of protobuf that etcd's messages use. */
export type ScalarType = 'bool' | 'bytes' | 'int64' | 'string' | 'uint32' | 'uint64';

/** The type of a field: a scalar, or the full name of a message or an enum. */
export type FieldType = { readonly scalar: ScalarType } | { readonly message: string } | { readonly enum: string };

/** A field of a message, as declared in the .proto file. */
export interface FieldDescriptor {
  readonly number: number;
  /** The name in the .proto file, such as `create_revision`. */
  readonly name: string;
  /** The name of the property in TypeScript, such as `createRevision`. */
  readonly property: string;
  readonly type: FieldType;
  readonly repeated?: true;
  /** If the field belongs to a oneof, the name of the TypeScript property for that oneof. */
  readonly oneof?: string;
}
