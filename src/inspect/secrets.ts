import { EtcdError } from '../errors/etcd-error.js';
import { messageFields } from '../gen/descriptors.js';
import { concatBytes } from '../runtime/bytes.js';
import { literalString } from '../transport/http2/hpack/encoder.js';
import type { HeaderField } from '../transport/http2/hpack/tables.js';
import { explain, headerSpans } from './explain.js';

// What a trace hides: passwords, tokens, and snapshots.

export const SECRET_HEADERS: ReadonlySet<string> = new Set(['token', 'authorization']);

export function withoutSecret([name, value]: HeaderField): HeaderField {
  return [name, SECRET_HEADERS.has(name) ? '(not shown)' : value];
}

/**
 * Replaces each secret in a header block by as many asterisks, so that the dynamic table keeps its size, and the
 * following blocks of the connection can still be decoded. `fields` are the decoded fields of the block.
 */
export function withoutSecretValues(block: Uint8Array, fields: readonly HeaderField[]): Uint8Array {
  const parts: Uint8Array[] = [];
  let index = 0;
  for (const { start, end, kind, valueAt } of headerSpans(block)) {
    const [name = '', value = ''] = (kind === 'field' ? fields[index++] : undefined) ?? [];
    if (valueAt === undefined || !SECRET_HEADERS.has(name)) parts.push(block.subarray(start, end));
    else parts.push(block.subarray(start, valueAt), Uint8Array.from(literalString('*'.repeat(value.length))));
  }
  return concatBytes(...parts);
}

/** Names of fields for passwords, tokens or hashes of passwords. `blob` is a snapshot, with the hashes of all users. */
export const SECRET_FIELDS: ReadonlySet<string> = new Set(['password', 'hashedPassword', 'token', 'blob']);

export function mayContainSecrets(typeName: string): boolean {
  return messageFields[typeName]?.some(({ name }) => SECRET_FIELDS.has(name)) ?? false;
}

/** Replaces the bytes of secrets with 0, and all bytes of a malformed message. */
export function withoutSecrets<T extends { readonly typeName: string; readonly bytes: Uint8Array }>(message: T): T {
  if (!mayContainSecrets(message.typeName)) return message;
  const bytes = message.bytes.slice();
  try {
    for (const { start, end, part, field, depth } of explain(message.typeName, message.bytes)) {
      if (part === 'value' && depth === 0 && field !== undefined && SECRET_FIELDS.has(field.name))
        bytes.fill(0, start, end);
    }
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
    bytes.fill(0);
  }
  return { ...message, bytes };
}
