import type { JsonValue } from '../protobuf/json.js';
import { hexOf, toBase64, validTextOf } from '../runtime/bytes.js';

export const FORMATS = ['table', 'json', 'simple'] as const;
export type Format = (typeof FORMATS)[number];

/** Where a program writes to. */
export interface Sink {
  readonly isTTY?: boolean | undefined;
  write(data: string | Uint8Array): unknown;
}

/** What a command says, in the form that was asked for: without a word, tables on a terminal and JSON elsewhere. */
export class Output {
  readonly format: Format;
  readonly #sink: Sink;

  constructor(sink: Sink, format: Format | undefined) {
    this.#sink = sink;
    this.format = format ?? (sink.isTTY ? 'table' : 'json');
  }

  line(text: string): void {
    this.#sink.write(`${text}\n`);
  }

  bytes(bytes: Uint8Array): void {
    this.#sink.write(bytes);
  }

  /** One value a line, for those who read line by line. */
  json(value: JsonValue): void {
    this.line(JSON.stringify(value));
  }

  /** Columns side by side under their heads; numbers, and nothing else, to the right. */
  table(heads: readonly string[], rows: readonly (readonly string[])[]): void {
    const all = [heads, ...rows];
    const widths = heads.map((_, column) => all.reduce((most, row) => Math.max(most, widthOf(row[column] ?? '')), 0));
    const isNumeric = heads.map((_, column) => rows.length > 0 && rows.every((row) => /^\d+$/.test(row[column] ?? '')));
    for (const row of all) {
      const cells = row.map((cell, column) => {
        const room = ' '.repeat((widths[column] as number) - widthOf(cell));
        return isNumeric[column] ? room + cell : cell + room;
      });
      this.line(cells.join('  ').trimEnd());
    }
  }
}

/** In characters, where a terminal gives each one place. */
function widthOf(text: string): number {
  return [...text].length;
}

/** What would move a terminal's cursor, or worse. */
const CONTROLS = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Bytes for a person to read: text as it is but for control characters; what is no text in hexadecimal. */
export function readable(bytes: Uint8Array): string {
  const text = validTextOf(bytes);
  return text === undefined ? `0x${hexOf(bytes)}` : harmless(text);
}

/** The same between quotation marks, where text is as JSON has it. */
export function quoted(value: Uint8Array | string): string {
  const text = typeof value === 'string' ? value : validTextOf(value);
  return text === undefined ? readable(value as Uint8Array) : harmless(JSON.stringify(text));
}

/** With control characters, which would move a terminal's cursor or worse, spelled out. */
export function harmless(text: string): string {
  return text.replace(
    CONTROLS,
    (character) => `\\u${(character.codePointAt(0) as number).toString(16).padStart(4, '0')}`,
  );
}

const BASE64 = 'base64:';

/** Bytes for a program to read, where it asked for text: what is no text in base64, after "base64:". */
export function asText(bytes: Uint8Array): string {
  const text = validTextOf(bytes);
  return text === undefined || text.startsWith(BASE64) ? BASE64 + toBase64(bytes) : text;
}

export { BASE64 as BASE64_PREFIX };

/** Ids of members, as etcdctl writes them. */
export function hexId(id: bigint): string {
  return BigInt.asUintN(64, id).toString(16);
}

/** Ids of leases, as etcdctl writes them. */
export function leaseHex(id: bigint): string {
  return hexId(id).padStart(16, '0');
}
