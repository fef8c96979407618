import { type KeyValue, parseJson } from '../../client/index.js';

/** Returns the fields of the JSON object in the value of a key. Returns no fields if the value is not JSON. */
export function storedFields(kv: KeyValue): Readonly<Partial<Record<string, unknown>>> {
  try {
    return Object(parseJson(kv.text(), 'value'));
  } catch {
    return {};
  }
}
