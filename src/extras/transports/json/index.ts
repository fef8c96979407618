export { bigintIn, headerRevision, hexIn, objectIn, objectsIn, textIn } from './fields.js';
export {
  BASE64_PREFIX,
  type BytesFromJson,
  type BytesToJson,
  enumName,
  type FromJsonOptions,
  fromBase64,
  fromJson,
  fromTextOrBase64,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  textOrBase64,
  toJson,
} from './json.js';
export { JsonReader, JsonSyntaxError } from './json-reader.js';
export { type AnyMethod, allMethods, methodByPath, methodByShortPath, shortPath } from './method-table.js';
