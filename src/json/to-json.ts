import { enumValues, messageFields } from '../gen/descriptors.js';
import type { Codec } from '../protobuf/codec.js';
import type { FieldDescriptor } from '../protobuf/descriptor.js';
import { toBase64 } from './base64.js';
import type { JsonObject, JsonValue } from './json-value.js';

/** How bytes stand in JSON. */
export type BytesToJson = (bytes: Uint8Array) => string;

/**
 * A message in protobuf's JSON mapping (https://protobuf.dev/programming-guides/json/), as etcd's gateway writes it:
 * fields under the names of the .proto file, those at their defaults left out, 64-bit integers as strings, bytes in
 * base64 unless `bytesToJson` says otherwise.
 */
export function toJson<T>(codec: Codec<T>, message: T, bytesToJson: BytesToJson = toBase64): JsonObject {
  return messageToJson(codec.typeName, message as Message, bytesToJson);
}

type Message = Readonly<Record<string, unknown>>;

function messageToJson(typeName: string, message: Message, bytesToJson: BytesToJson): JsonObject {
  const json: Record<string, JsonValue> = {};
  for (const field of messageFields[typeName] ?? []) {
    const value = valueIn(field, message);
    if (value === undefined) continue;
    json[field.name] = field.repeated
      ? (value as readonly unknown[]).map((each) => valueToJson(field, each, bytesToJson))
      : valueToJson(field, value, bytesToJson);
  }
  return json;
}

/** The value of the field, unless it is the one that an absent field stands for. */
function valueIn({ property, oneof }: FieldDescriptor, message: Message): unknown {
  if (oneof !== undefined) {
    const chosen = message[oneof] as { readonly case: string; readonly value: unknown } | undefined;
    return chosen?.case === property ? chosen.value : undefined;
  }
  const value = message[property];
  const isDefault = value === 0 || value === 0n || value === '' || value === false || isEmpty(value);
  return isDefault ? undefined : value;
}

function isEmpty(value: unknown): boolean {
  return (value instanceof Uint8Array || Array.isArray(value)) && value.length === 0;
}

function valueToJson({ type }: FieldDescriptor, value: unknown, bytesToJson: BytesToJson): JsonValue {
  if ('message' in type) return messageToJson(type.message, value as Message, bytesToJson);
  if ('enum' in type) return enumName(type.enum, value as number) ?? (value as number);
  if (value instanceof Uint8Array) return bytesToJson(value);
  return typeof value === 'bigint' ? String(value) : (value as JsonValue);
}

/** The name of a value, where this version of the interface has one. */
export function enumName(typeName: string, value: number): string | undefined {
  return Object.entries(enumValues[typeName] ?? {}).find(([, number]) => number === value)?.[0];
}
