import { EtcdError } from '../errors/etcd-error.js';
import type { Codec } from '../protobuf/codec.js';
import type { BytesToJson } from '../protobuf/json.js';
import { type BytesFromJson, type FromJsonOptions, fromBase64, fromJson } from '../protobuf/json.js';
import { toBase64, toBytes } from '../runtime/bytes.js';
import { CliError, ExitCode } from './exit-code.js';
import { asText, BASE64_PREFIX } from './output.js';

/** How the bytes of messages stand in JSON: in base64 as etcd's gateway has them, or as text where that was asked for. */
export function bytesAs(text: boolean): { readonly bytesFromJson: BytesFromJson; readonly bytesToJson: BytesToJson } {
  return text ? { bytesFromJson: fromText, bytesToJson: asText } : { bytesFromJson: fromBase64, bytesToJson: toBase64 };
}

function fromText(text: string, argument: string): Uint8Array {
  if (text.startsWith(BASE64_PREFIX)) return fromBase64(text.slice(BASE64_PREFIX.length), argument);
  return toBytes(text, argument);
}

/** Long enough for 64 bits that JSON.parse would round. */
const LONG_INTEGER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\b\d{16,20}\b(?![.eE\d])/gs;

/** A message in JSON. @throws CliError, that says where in it something is not as it should be. */
export function messageFrom<T>(codec: Codec<T>, text: string, what: string, options: FromJsonOptions): T {
  const json = parseJson(text, what);
  try {
    return fromJson(codec, json, options);
  } catch (error) {
    if (error instanceof EtcdError && error.reason === 'InvalidInput')
      throw new CliError(ExitCode.DATA, `${what}: ${error.message}`);
    throw error;
  }
}

/** 64-bit integers may stand there as numbers: they are read as the strings that they ought to be. @throws CliError */
function parseJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text.replace(LONG_INTEGER, (found) => (found.startsWith('"') ? found : `"${found}"`)));
  } catch (error) {
    throw new CliError(ExitCode.DATA, `${what} is no JSON: ${(error as Error).message}`);
  }
}
