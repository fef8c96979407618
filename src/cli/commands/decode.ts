import type { Command } from 'commander';
import { messageFields } from '../../gen/descriptors.js';
import { explain, type Span } from '../../inspect/explain.js';
import type { JsonObject } from '../../protobuf/json.js';
import { hexOf, toBase64 } from '../../runtime/bytes.js';
import { MESSAGE_PREFIX_BYTES } from '../../transport/http2/message-prefix.js';
import { type Context, contextOf } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import type { Io } from '../io.js';
import { isNamed } from '../method-name.js';
import { spanText } from '../span-text.js';
import { typeText } from '../type-text.js';

export function addDecodeCommand(program: Command, io: Io): void {
  program
    .command('decode')
    .argument('<message>', 'its type, such as PutRequest')
    .argument('<hex...>', 'its bytes in hexadecimal')
    .description('explains each byte of a message')
    .action((name: string, hex: string[], _, command: Command) => {
      decode(contextOf(io, command), messageNamed(name), bytesOf(hex.join('')));
    });
}

function decode({ out }: Context, typeName: string, bytes: Uint8Array): void {
  // No message begins so, but each on the wire does.
  if (bytes[0] === 0 && bytes.length >= MESSAGE_PREFIX_BYTES)
    throw new CliError(
      ExitCode.DATA,
      `hex: got ${MESSAGE_PREFIX_BYTES} bytes of gRPC first; allowed: the message after them`,
    );
  for (const span of explain(typeName, bytes)) {
    if (out.format === 'json') out.json(spanJson(span, bytes));
    else out.line(spanText(span, bytes));
  }
}

/** @throws CliError */
function messageNamed(name: string): string {
  const found = Object.keys(messageFields).find((each) => isNamed(each, name));
  if (found === undefined)
    throw new CliError(
      ExitCode.USAGE,
      `no message ${name}; allowed: those that etcdwire describe shows, such as RangeRequest`,
    );
  return found;
}

function bytesOf(text: string): Uint8Array {
  const hex = text.replaceAll(/\s|0x/g, '');
  if (!/^(?:[0-9a-f]{2})*$/i.test(hex))
    throw new CliError(ExitCode.DATA, 'hex: got something else; allowed: pairs of hexadecimal digits');
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

function spanJson({ start, end, depth, part, number, wireType, field, value }: Span, bytes: Uint8Array): JsonObject {
  return {
    offset: start,
    hex: hexOf(bytes.subarray(start, end)),
    depth,
    part,
    number,
    wireType,
    ...(field === undefined ? {} : { field: field.name, type: typeText(field.type) }),
    ...(value === undefined ? {} : { value: value instanceof Uint8Array ? toBase64(value) : plainValue(value) }),
  };
}

function plainValue(value: Exclude<Span['value'], Uint8Array | undefined>): string | number | boolean {
  return typeof value === 'bigint' ? String(value) : value;
}
