import {
  type EtcdError,
  invalidInput,
  isWellFormed,
  show,
  toBase64,
  toBytes,
  validTextOf,
} from '../../../base/index.js';
import { enumValues, messageFields } from '../../../gen/descriptors.js';
import { type Codec, type FieldDescriptor, MAX_DEPTH, type ScalarType } from '../../../wire/index.js';

// This file implements the JSON mapping of protobuf: https://protobuf.dev/programming-guides/json/

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

export interface JsonObject {
  readonly [name: string]: JsonValue;
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

type Message = Record<string, unknown>;

export type BytesToJson = (bytes: Uint8Array) => string;

/**
 * Converts a message to JSON, as etcd's gateway does: fields have the names of the .proto file, fields with their
 * default value are left out, and 64-bit integers are strings. Bytes are base64 unless `bytesToJson` converts them.
 */
export function toJson<T>(codec: Codec<T>, message: T, bytesToJson: BytesToJson = toBase64): JsonObject {
  return messageToJson(codec.typeName, message as Message, bytesToJson);
}

function messageToJson(typeName: string, message: Message, bytesToJson: BytesToJson): JsonObject {
  const json: Record<string, JsonValue> = {};
  for (const field of messageFields[typeName] ?? []) {
    const value = setValueOf(field, message);
    if (value === undefined) continue;
    json[field.name] = field.repeated
      ? (value as readonly unknown[]).map((each) => valueToJson(field, each, bytesToJson))
      : valueToJson(field, value, bytesToJson);
  }
  return json;
}

/** Returns undefined if the field has its default value. */
function setValueOf({ property, oneof }: FieldDescriptor, message: Message): unknown {
  if (oneof !== undefined) {
    const chosen = message[oneof] as { readonly case: string; readonly value: unknown } | undefined;
    return chosen?.case === property ? chosen.value : undefined;
  }
  const value = message[property];
  const isEmpty = (value instanceof Uint8Array || Array.isArray(value)) && value.length === 0;
  return isEmpty || value === 0 || value === 0n || value === '' || value === false ? undefined : value;
}

function valueToJson({ type }: FieldDescriptor, value: unknown, bytesToJson: BytesToJson): JsonValue {
  if ('message' in type) return messageToJson(type.message, value as Message, bytesToJson);
  if ('enum' in type) return enumName(type.enum, value as number) ?? (value as number);
  if (value instanceof Uint8Array) return bytesToJson(value);
  return typeof value === 'bigint' ? String(value) : (value as JsonValue);
}

/** Returns the name of an enum value, or undefined if this version's .proto files do not define the value. */
export function enumName(typeName: string, value: number): string | undefined {
  return Object.entries(enumValues[typeName] ?? {}).find(([, number]) => number === value)?.[0];
}

/** `argument` is the path of the field in error messages. */
export type BytesFromJson = (text: string, argument: string) => Uint8Array;

export interface FromJsonOptions {
  /** Decodes the strings of bytes fields. Default: base64. */
  readonly bytesFromJson?: BytesFromJson | undefined;
  /** Whether to ignore fields that this version's .proto files do not define. Default false: refuse such fields. */
  readonly ignoreUnknown?: boolean | undefined;
}

/**
 * Converts JSON to a message. Fields may have the names of the .proto file or names in camel case. 64-bit integers may
 * be strings, bigints, or numbers up to 2^53 - 1. A field that is `null` counts as left out. Like a decoded message,
 * the result has all fields; a field that the JSON leaves out has its default value.
 *
 * @throws EtcdError with reason `InvalidInput` if the JSON does not fit the message type. The error message names the
 * field.
 */
export function fromJson<T>(codec: Codec<T>, json: unknown, options: FromJsonOptions = {}): T {
  return messageFromJson(codec.typeName, json, '', options, 0) as T;
}

/** `depth` is the number of messages around this one. */
function messageFromJson(
  typeName: string,
  json: unknown,
  path: string,
  options: FromJsonOptions,
  depth: number,
): Message {
  if (!isJsonObject(json)) throw refused(path, typeName, json, 'a JSON object');
  if (depth > MAX_DEPTH) throw refused(path, typeName, json, `at most ${MAX_DEPTH} levels of messages`);
  const fields = messageFields[typeName] ?? [];
  const message: Message = Object.fromEntries(fields.map((field) => [field.oneof ?? field.property, defaultOf(field)]));
  for (const [name, value] of Object.entries(json)) {
    const field = fields.find((each) => each.name === name || each.property === name);
    if (field === undefined) {
      if (options.ignoreUnknown) continue;
      const allowed = fields.map((each) => each.name).join(', ') || 'no fields';
      throw invalidInput(path + name, `a field that ${typeName} does not have`, allowed);
    }
    if (value !== null) setField(message, field, fieldFromJson(field, value, path + name, options, depth), path + name);
  }
  return message;
}

function defaultOf({ type, repeated, oneof }: FieldDescriptor): unknown {
  if (oneof !== undefined) return undefined;
  if (repeated) return [];
  if ('message' in type) return undefined;
  return 'enum' in type ? 0 : SCALAR_DEFAULTS[type.scalar]();
}

const SCALAR_DEFAULTS: Readonly<Record<ScalarType, () => unknown>> = {
  bool: () => false,
  bytes: () => new Uint8Array(0),
  int64: () => 0n,
  string: () => '',
  uint32: () => 0,
  uint64: () => 0n,
};

function setField(message: Message, { property, oneof }: FieldDescriptor, value: unknown, path: string): void {
  if (oneof === undefined) message[property] = value;
  else if (message[oneof] === undefined) message[oneof] = { case: property, value };
  else {
    const other = (message[oneof] as { readonly case: string }).case;
    throw invalidInput(path, `${property} together with ${other}`, 'only one of the two');
  }
}

function fieldFromJson(
  field: FieldDescriptor,
  json: unknown,
  path: string,
  options: FromJsonOptions,
  depth: number,
): unknown {
  if (!field.repeated) return valueFromJson(field, json, path, options, depth);
  if (!Array.isArray(json)) throw refused(path, field.name, json, 'a JSON array');
  return json.map((each, index) => valueFromJson(field, each, `${path}[${index}]`, options, depth));
}

function valueFromJson(
  { type }: FieldDescriptor,
  json: unknown,
  path: string,
  options: FromJsonOptions,
  depth: number,
): unknown {
  if ('message' in type) return messageFromJson(type.message, json, `${path}.`, options, depth + 1);
  if ('enum' in type) return enumFromJson(type.enum, json, path);
  switch (type.scalar) {
    case 'bool':
      if (typeof json === 'boolean') return json;
      throw refused(path, type.scalar, json, 'true or false');
    case 'string':
      if (typeof json !== 'string') throw refused(path, type.scalar, json, 'a string');
      if (isWellFormed(json)) return json;
      throw invalidInput(path, 'a string with a lone surrogate', 'a string of well-formed Unicode');
    case 'bytes':
      if (typeof json === 'string') return (options.bytesFromJson ?? fromBase64)(json, path);
      throw refused(path, type.scalar, json, 'a string');
    default:
      return integerFromJson(type.scalar, json, path);
  }
}

function enumFromJson(typeName: string, json: unknown, path: string): number {
  const values = enumValues[typeName] ?? {};
  if (typeof json === 'number' && Number.isInteger(json) && json === (json | 0)) return json;
  if (typeof json === 'string' && Object.hasOwn(values, json)) return values[json] as number;
  throw refused(path, typeName, json, Object.keys(values).join(', '));
}

const INTEGERS = {
  int64: { least: -(2n ** 63n), most: 2n ** 63n - 1n, allowed: 'a whole number from -2^63 to 2^63 - 1' },
  uint64: { least: 0n, most: 2n ** 64n - 1n, allowed: 'a whole number from 0 to 2^64 - 1' },
  uint32: { least: 0n, most: 2n ** 32n - 1n, allowed: 'a whole number from 0 to 2^32 - 1' },
} as const;

function integerFromJson(type: keyof typeof INTEGERS, json: unknown, path: string): bigint | number {
  const { least, most, allowed } = INTEGERS[type];
  const isExact =
    typeof json === 'string' ? /^-?\d{1,20}$/.test(json) : typeof json === 'bigint' || Number.isSafeInteger(json);
  const hint = typeof json === 'number' && Number.isInteger(json) ? ', given as a string if above 2^53 - 1' : '';
  if (!isExact) throw refused(path, type, json, allowed + hint);
  const value = BigInt(json as string | number | bigint);
  if (value < least || value > most) throw refused(path, type, json, allowed);
  return type === 'uint32' ? Number(value) : value;
}

/** `what` names the value at the top level, where the path is empty. */
function refused(path: string, what: string, json: unknown, allowed: string): EtcdError {
  return invalidInput(path.replace(/\.$/, '') || what, show(json), allowed);
}

/**
 * Decodes standard or URL-safe base64, with or without padding. `argument` is the name of the value in error messages.
 *
 * @throws EtcdError with reason `InvalidInput` if the text is not base64.
 */
export function fromBase64(text: string, argument: string): Uint8Array {
  const unpadded = text
    .replace(/={1,2}$/, '')
    .replaceAll('-', '+')
    .replaceAll('_', '/');
  if (!/^[A-Za-z0-9+/]*$/.test(unpadded) || unpadded.length % 4 === 1)
    throw invalidInput(argument, 'a string that is not base64', 'base64 text');
  const binary = atob(unpadded);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

export const BASE64_PREFIX = 'base64:';

/**
 * Formats bytes for JSON that people read: UTF-8 as text, other bytes as "base64:" and their base64 encoding. Text that
 * begins with "base64:" is encoded as well, so that the result is unambiguous.
 */
export function textOrBase64(bytes: Uint8Array): string {
  const text = validTextOf(bytes);
  return text === undefined || text.startsWith(BASE64_PREFIX) ? BASE64_PREFIX + toBase64(bytes) : text;
}

/**
 * Returns the bytes that `textOrBase64` has formatted.
 *
 * @throws EtcdError with reason `InvalidInput` if the text after "base64:" is not base64.
 */
export function fromTextOrBase64(text: string, argument: string): Uint8Array {
  return text.startsWith(BASE64_PREFIX)
    ? fromBase64(text.slice(BASE64_PREFIX.length), argument)
    : toBytes(text, argument);
}
