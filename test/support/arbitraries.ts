import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  loadSync,
  type MessageTypeDefinition,
  type MethodDefinition,
  type ServiceDefinition,
} from '@grpc/proto-loader';
import fc from 'fast-check';
import protobuf from 'protobufjs';
import { descendants } from '../../scripts/generate/descriptors.js';
import * as auth from '../../src/gen/authpb/auth.js';
import * as rpc from '../../src/gen/etcdserverpb/rpc.js';
import * as kv from '../../src/gen/mvccpb/kv.js';
import * as election from '../../src/gen/v3electionpb/v3election.js';
import * as lock from '../../src/gen/v3lockpb/v3lock.js';
import { decode } from '../../src/wire/protobuf/reader.js';
import type { Codec } from '../../src/wire/protobuf/schema.js';
import { encode, type Init } from '../../src/wire/protobuf/writer.js';

// Generates messages of every type in the .proto files by reflection, and converts them between the objects of this
// package, of protobufjs and of proto-loader.

/** The fields of a message by name. Their types are unknown to TypeScript, because tests find them by reflection. */
export type Fields = Record<string, unknown>;

type Member = protobuf.Field | protobuf.OneOf;

const PROTO_DIR = join(import.meta.dirname, '../../proto');
const PROTO_FILES = readdirSync(PROTO_DIR, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.proto'))
  .sort();

export const protoTree = loadProtos();

export const messageTypes: readonly protobuf.Type[] = descendants(protoTree).filter(
  (entry) => entry instanceof protobuf.Type,
);

/** The exports of src/gen, by protobuf package. */
export const generated: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  authpb: auth,
  etcdserverpb: rpc,
  mvccpb: kv,
  v3electionpb: election,
  v3lockpb: lock,
};

/** Every codec, by the full name of its message. */
export const codecs: ReadonlyMap<string, Codec<Fields>> = new Map(
  Object.values(generated)
    .flatMap((module) => Object.values(module))
    .filter(isCodec)
    .map((codec) => [codec.typeName, codec]),
);

export function codecOf(type: protobuf.Type): Codec<Fields> {
  const codec = codecs.get(type.fullName.slice(1));
  if (codec === undefined) throw new Error(`no codec for ${type.fullName}`);
  return codec;
}

export function isCodec(value: unknown): value is Codec<Fields> {
  return typeof value === 'object' && value !== null && 'typeName' in value;
}

function loadProtos(): protobuf.Root {
  const tree = new protobuf.Root();
  tree.resolvePath = (_origin, target) => join(PROTO_DIR, target);
  tree.loadSync(PROTO_FILES, { keepCase: true });
  tree.resolveAll();
  return tree;
}

const signed = { min: -(2n ** 63n), max: 2n ** 63n - 1n };
const unsigned = { min: 0n, max: 2n ** 64n - 1n };
const SCALARS: Readonly<Record<string, { readonly zero: unknown; readonly arbitrary: fc.Arbitrary<unknown> }>> = {
  bool: { zero: false, arbitrary: fc.boolean() },
  bytes: { zero: new Uint8Array(0), arbitrary: fc.uint8Array({ maxLength: 20 }) },
  int64: {
    zero: 0n,
    arbitrary: fc.oneof(
      fc.constantFrom(0n, -1n, 2n ** 53n - 1n, 2n ** 53n, signed.min, signed.max),
      fc.bigInt(-300n, 300n),
      fc.bigInt(signed),
    ),
  },
  string: { zero: '', arbitrary: fc.string({ unit: 'binary', maxLength: 12 }) },
  uint32: { zero: 0, arbitrary: fc.oneof(fc.constantFrom(0, 2 ** 31, 2 ** 32 - 1), fc.nat({ max: 2 ** 32 - 1 })) },
  uint64: {
    zero: 0n,
    arbitrary: fc.oneof(
      fc.constantFrom(0n, 2n ** 53n, 2n ** 63n, unsigned.max),
      fc.bigInt(0n, 300n),
      fc.bigInt(unsigned),
    ),
  },
};

const arbitraries = new Map<string, fc.Arbitrary<Fields>>();

/**
 * Generates messages of a type with at most `depth` levels of nesting. Every property is present, as in the messages
 * that `decode` returns.
 */
export function messageArbitrary(type: protobuf.Type, depth = 4): fc.Arbitrary<Fields> {
  const key = `${type.fullName} ${depth}`;
  const known = arbitraries.get(key);
  if (known !== undefined) return known;
  const entries = membersOf(type).map((member) =>
    memberArbitrary(member, depth).map((value): [string, unknown] => [ourName(type, member), value]),
  );
  const made = fc.tuple(...entries).map((fields): Fields => Object.fromEntries(fields));
  arbitraries.set(key, made);
  return made;
}

function memberArbitrary(member: Member, depth: number): fc.Arbitrary<unknown> {
  if (member instanceof protobuf.OneOf) {
    const fields = member.fieldsArray.filter((field) => depth > 0 || !(field.resolvedType instanceof protobuf.Type));
    const cases = fields.map((field) =>
      valueArbitrary(field, depth).map((value) => ({ case: caseName(field), value })),
    );
    return fc.oneof(fc.constant(undefined), ...cases);
  }
  if (member.resolvedType instanceof protobuf.Type && depth === 0) return fc.constant(zeroOf(member));
  const value = valueArbitrary(member, depth);
  if (member.repeated) return fc.array(value, { maxLength: 3 });
  return member.resolvedType instanceof protobuf.Type ? fc.option(value, { nil: undefined }) : value;
}

function valueArbitrary(field: protobuf.Field, depth: number): fc.Arbitrary<unknown> {
  if (field.resolvedType instanceof protobuf.Type) return messageArbitrary(field.resolvedType, depth - 1);
  // The generated numbers include numbers without a name, because a newer server may send an enum value that this
  // client does not know.
  if (field.resolvedType instanceof protobuf.Enum)
    return fc.oneof(fc.constantFrom(...Object.values(field.resolvedType.values)), fc.integer());
  return scalar(field).arbitrary;
}

/**
 * Converts a message to the form of protobufjs and proto-loader. Omits singular fields with default values, because an
 * encoding does not contain them. Keeps the field of a oneof, and empty lists.
 */
function toProtobufjs(type: protobuf.Type, message: Fields): Fields {
  const theirs: Fields = {};
  for (const member of membersOf(type)) {
    const value = message[ourName(type, member)];
    if (member instanceof protobuf.OneOf) {
      const given = value as { case: string; value: unknown } | undefined;
      const field = member.fieldsArray.find((candidate) => caseName(candidate) === given?.case);
      if (field !== undefined) theirs[field.name] = theirValue(field, given?.value);
    } else if (member.repeated) {
      theirs[member.name] = (value as unknown[]).map((element) => theirValue(member, element));
    } else if (value !== undefined && !isZero(member, value)) {
      theirs[member.name] = theirValue(member, value);
    }
  }
  return theirs;
}

function theirValue(field: protobuf.Field, value: unknown): unknown {
  if (field.resolvedType instanceof protobuf.Type) return toProtobufjs(field.resolvedType, value as Fields);
  return typeof value === 'bigint' ? String(value) : value;
}

/** Options that make protobufjs and proto-loader return messages in the form that `fromProtobufjs` expects. */
const CONVERSION = { longs: String, defaults: true, arrays: true, oneofs: true } as const;

/** Converts a message that protobufjs or proto-loader has decoded into the form of this package. */
function fromProtobufjs(type: protobuf.Type, theirs: Fields): Fields {
  const entries = membersOf(type).map((member): [string, unknown] => {
    const value = theirs[member.name];
    if (member instanceof protobuf.OneOf) {
      const field = member.fieldsArray.find((candidate) => candidate.name === value);
      if (field === undefined) return [ourName(type, member), undefined];
      return [ourName(type, member), { case: caseName(field), value: ourValue(field, theirs[field.name]) }];
    }
    if (member.repeated)
      return [ourName(type, member), (value as unknown[]).map((element) => ourValue(member, element))];
    return [ourName(type, member), value === null ? undefined : ourValue(member, value)];
  });
  return Object.fromEntries(entries);
}

function ourValue(field: protobuf.Field, value: unknown): unknown {
  if (field.resolvedType instanceof protobuf.Type) return fromProtobufjs(field.resolvedType, value as Fields);
  if (field.type === 'int64' || field.type === 'uint64') return BigInt(value as string);
  return field.type === 'bytes' ? Uint8Array.from(value as Uint8Array) : value;
}

/** An implementation that encodes and decodes messages. */
export interface Coder {
  encode(type: protobuf.Type, message: Fields): Uint8Array;
  decode(type: protobuf.Type, bytes: Uint8Array): Fields;
}

export const ours: Coder = {
  encode: (type, message) => encode(codecOf(type), message as Init<Fields>),
  decode: (type, bytes) => decode(codecOf(type), bytes),
};

export const protobufjs: Coder = {
  encode: (type, message) => Uint8Array.from(type.encode(type.fromObject(toProtobufjs(type, message))).finish()),
  decode: (type, bytes) => fromProtobufjs(type, type.toObject(type.decode(bytes), CONVERSION)),
};

const grpc = loadSync(PROTO_FILES, { ...CONVERSION, keepCase: true, includeDirs: [PROTO_DIR] });

/** The coder of proto-loader, which depends on a protobufjs that is one major version older than `protobufjs` above. */
export const protoLoader: Coder = {
  encode: (type, message) => Uint8Array.from(definitionOf(type).serialize(toProtobufjs(type, message))),
  decode: (type, bytes) => fromProtobufjs(type, definitionOf(type).deserialize(Buffer.from(bytes)) as Fields),
};

function definitionOf(type: protobuf.Type): MessageTypeDefinition<object, object> {
  return grpc[type.fullName.slice(1)] as MessageTypeDefinition<object, object>;
}

/** Every gRPC method: its path, and the types and proto-loader coders for its request and its response. */
export const grpcMethods = Object.values(grpc)
  .filter((definition): definition is ServiceDefinition => !('format' in definition))
  .flatMap((service) => Object.values(service).map((method) => ({ path: method.path, sides: sidesOf(method) })));

function sidesOf(method: MethodDefinition<object, object>): { readonly type: protobuf.Type; readonly coder: Coder }[] {
  const [, service = '', name = ''] = method.path.split('/');
  const reflected = protoTree.lookupService(service).methods[name] as protobuf.Method;
  const request: Coder = {
    encode: (type, message) => Uint8Array.from(method.requestSerialize(toProtobufjs(type, message))),
    decode: (type, bytes) => fromProtobufjs(type, method.requestDeserialize(Buffer.from(bytes)) as Fields),
  };
  const response: Coder = {
    encode: (type, message) => Uint8Array.from(method.responseSerialize(toProtobufjs(type, message))),
    decode: (type, bytes) => fromProtobufjs(type, method.responseDeserialize(Buffer.from(bytes)) as Fields),
  };
  return [
    { type: reflected.resolvedRequestType as protobuf.Type, coder: request },
    { type: reflected.resolvedResponseType as protobuf.Type, coder: response },
  ];
}

/**
 * Returns the message to which the concatenated encodings of two messages decode, according to
 * https://protobuf.dev/programming-guides/encoding/#last-one-wins.
 */
export function merged(type: protobuf.Type, first: Fields, second: Fields): Fields {
  const entries = membersOf(type).map((member): [string, unknown] => {
    const name = ourName(type, member);
    return [name, mergedMember(member, first[name], second[name])];
  });
  return Object.fromEntries(entries);
}

function mergedMember(member: Member, first: unknown, second: unknown): unknown {
  if (member instanceof protobuf.OneOf) {
    const [before, after] = [first, second] as ({ case: string; value: Fields } | undefined)[];
    const field = member.fieldsArray.find((candidate) => caseName(candidate) === after?.case);
    if (after === undefined || before?.case !== after.case) return after ?? before;
    const { resolvedType } = field as protobuf.Field;
    if (!(resolvedType instanceof protobuf.Type)) return after;
    return { case: after.case, value: merged(resolvedType, before.value, after.value) };
  }
  if (member.repeated) return [...(first as unknown[]), ...(second as unknown[])];
  if (member.resolvedType instanceof protobuf.Type) {
    if (first === undefined || second === undefined) return second ?? first;
    return merged(member.resolvedType, first as Fields, second as Fields);
  }
  return isZero(member, second) ? first : second;
}

function membersOf(type: protobuf.Type): Member[] {
  return [...new Set(type.fieldsArray.map((field) => field.partOf ?? field))];
}

/**
 * Returns the name that a field or oneof has in the codec. This name differs from the name in the .proto file only in
 * underscores and capital letters.
 */
function ourName(type: protobuf.Type, member: Member): string {
  const plain = (name: string): string => name.replaceAll('_', '').toLowerCase();
  const name = Object.keys(codecOf(type).create()).find((candidate) => plain(candidate) === plain(member.name));
  if (name === undefined) throw new Error(`the codec of ${type.fullName} has no ${member.name}`);
  return name;
}

function caseName(field: protobuf.Field): string {
  return protobuf.util.camelCase(field.name);
}

function zeroOf(field: protobuf.Field): unknown {
  if (field.repeated) return [];
  if (field.resolvedType instanceof protobuf.Type) return undefined;
  return field.resolvedType instanceof protobuf.Enum ? 0 : scalar(field).zero;
}

function isZero(field: protobuf.Field, value: unknown): boolean {
  if (value instanceof Uint8Array) return value.length === 0;
  return value === zeroOf(field);
}

function scalar(field: protobuf.Field): (typeof SCALARS)[string] {
  const kind = SCALARS[field.type];
  if (kind === undefined) throw new Error(`${field.fullName}: no arbitrary for ${field.type}`);
  return kind;
}
