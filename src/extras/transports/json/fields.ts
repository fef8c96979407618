import { isJsonObject, type JsonObject, type JsonValue } from './json.js';

// Read the fields of messages in JSON. A missing field has the default of protobuf.

/** Returns the objects in a list. */
export function objectsIn(value: JsonValue | undefined): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

export function objectIn(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}

export function textIn(value: JsonValue | undefined): string {
  return value === undefined ? '' : String(value);
}

export function bigintIn(value: JsonValue | undefined): bigint {
  return BigInt(String(value ?? 0));
}

/** Returns an ID in hexadecimal. */
export function hexIn(id: JsonValue | undefined): string {
  return bigintIn(id).toString(16);
}

/** Returns the revision in the header of an answer, or 0 if the answer has no header. */
export function headerRevision({ header }: JsonObject): bigint {
  return bigintIn(objectIn(header).revision);
}
