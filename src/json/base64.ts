import { invalidInput } from '../errors.js';

/** So that no string of arguments grows past what a call takes. */
const CHUNK = 8_192;

/** Base64 of RFC 4648, section 4, with padding. */
export function toBase64(bytes: Uint8Array): string {
  let binary = '';
  for (let at = 0; at < bytes.length; at += CHUNK) binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(binary);
}

/** Takes the alphabet for URLs as well, and needs no padding. @throws EtcdError, reason `InvalidInput`. */
export function fromBase64(text: string, argument: string): Uint8Array {
  const unpadded = text
    .replace(/={1,2}$/, '')
    .replaceAll('-', '+')
    .replaceAll('_', '/');
  if (!/^[A-Za-z0-9+/]*$/.test(unpadded) || unpadded.length % 4 === 1)
    throw invalidInput(argument, 'a string that is no base64', 'base64');
  const binary = atob(unpadded);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}
