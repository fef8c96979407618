import { EtcdError } from '../errors/etcd-error.js';
import { messageFields } from '../gen/descriptors.js';
import type { HeaderField } from '../transport/http2/hpack/static-table.js';
import { explain } from './explain.js';
import type { WireMessage } from './frame.js';

const SECRET_HEADERS: ReadonlySet<string> = new Set(['token', 'authorization']);
/** Names of fields that hold passwords, tokens, or hashes of them; a snapshot (`blob`) has those of all users. */
const SECRET_FIELDS: ReadonlySet<string> = new Set(['password', 'hashedPassword', 'token', 'blob']);

export function isSecretField([name]: HeaderField): boolean {
  return SECRET_HEADERS.has(name);
}

export function mayHoldSecrets(typeName: string): boolean {
  return messageFields[typeName]?.some(({ name }) => SECRET_FIELDS.has(name)) ?? false;
}

/**
 * The message without the passwords and tokens in it: their bytes are 0, and all of them are where it is no such message.
 * The same one where there are none.
 */
export function blanked(message: WireMessage): WireMessage {
  if (!mayHoldSecrets(message.typeName)) return message;
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
