import type { Span } from '../inspect/explain.js';
import { enumName } from '../protobuf/json.js';
import { hexOf } from '../runtime/bytes.js';
import { quoted } from './output.js';
import { typeText } from './type-text.js';

/** Bytes shown of one part; the rest is counted. */
const MAX_HEX_BYTES = 16;

export function spanText(span: Span, bytes: Uint8Array): string {
  const { start, end, depth } = span;
  const shown = bytes.subarray(start, Math.min(end, start + MAX_HEX_BYTES));
  const hex = hexOf(shown, ' ');
  const more = end - start > MAX_HEX_BYTES ? ` … (${end - start} bytes)` : '';
  const inner = '  '.repeat(depth * 2 + (span.part === 'tag' ? 0 : 1));
  return `${String(start).padStart(5)}  ${inner}${hex}${more}  ${meaning(span)}`;
}

/** What a run of bytes is, in words. */
export function meaning({ part, number, wireType, field, value }: Span): string {
  switch (part) {
    case 'tag': {
      const what =
        field === undefined ? 'a field that this message does not have' : `${field.name}: ${typeText(field.type)}`;
      return `field ${number}, ${wireType}: ${what}`;
    }
    case 'length':
      return `length ${value}`;
    case 'value':
      return valueText(value, field);
  }
}

export function valueText(value: Span['value'], field: Span['field']): string {
  if (value instanceof Uint8Array) return field === undefined ? 'passed over' : quoted(value);
  if (typeof value === 'string') return quoted(value);
  if (field !== undefined && 'enum' in field.type)
    return enumName(field.type.enum, value as number) ?? `${value}, which has no name here`;
  return String(value);
}
