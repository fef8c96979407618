import {
  type BytesToJson,
  type Codec,
  escapeControls,
  hexOf,
  type JsonValue,
  toJson,
  validTextOf,
} from '../../../src/internal.js';
import type { EtcdctlPrinter } from './etcdctl/printer.js';
import type { Details } from './etcdctl/simple.js';
import type { Format, Sink } from './output-base.js';

export { FORMATS, type Format, hexId, leaseHex, type Sink } from './output-base.js';

/** How to print a response. */
export interface ResponseOptions {
  /** Formats bytes in JSON. Default: base64. */
  readonly bytesToJson?: BytesToJson;
  /** What etcdctl prints besides the response. */
  readonly details?: Details;
  /** Whether etcdctl prints the same text in each format. */
  readonly sameInAllFormats?: boolean;
}

/** Prints the results of a command. The default format is `table` on a terminal and `json` elsewhere. */
export class Output {
  readonly format: Format;
  /** The format that the user has chosen. */
  readonly chosen: Format | undefined;
  readonly #sink: Sink;
  /** Whether keys and values are printed in hexadecimal. */
  readonly isHex: boolean;
  /** Prints responses as etcdctl does. Undefined in the normal mode. */
  readonly etcdctl: EtcdctlPrinter | undefined;

  /** With `hex`, keys and values are hexadecimal, except in JSON. */
  constructor(sink: Sink, format: Format | undefined, hex = false, etcdctl?: EtcdctlPrinter) {
    this.#sink = sink;
    this.isHex = hex;
    this.etcdctl = etcdctl;
    this.chosen = format;
    this.format = format ?? (sink.isTTY ? 'table' : 'json');
  }

  line(text: string): void {
    this.#sink.write(`${text}\n`);
  }

  /** Formats text from the server. Escapes control characters, which etcdctl does not. */
  text(text: string): string {
    return this.etcdctl === undefined ? escapeControls(text) : text;
  }

  /** Formats a key or a value. With --hex, each byte becomes an escape such as \x6b, as in etcdctl. */
  keyText(bytes: Uint8Array): string {
    return this.isHex ? hexOf(bytes).replace(/../g, '\\x$&') : readable(bytes);
  }

  bytes(bytes: Uint8Array): void {
    this.#sink.write(bytes);
  }

  /** Prints a value on one line. */
  json(value: JsonValue): void {
    this.line(JSON.stringify(value));
  }

  /** Prints a response as JSON if the format is `json`, and otherwise calls `print`. */
  response<T>(
    codec: Codec<T>,
    response: T,
    print: () => void,
    { bytesToJson, details = {}, sameInAllFormats = false }: ResponseOptions = {},
  ): void {
    if (this.etcdctl !== undefined) {
      if (sameInAllFormats) print();
      else this.etcdctl.response(codec, response, details, print);
    } else if (this.format === 'json') this.json(toJson(codec, response, bytesToJson));
    else print();
  }

  /** Prints a table, or in the format `simple` each row as a line without headings, as etcdctl does. */
  rows(headings: readonly string[], rows: readonly (readonly string[])[]): void {
    if (this.format === 'table') this.table(headings, rows);
    else for (const row of rows) this.line(row.join(', '));
  }

  /** Prints aligned columns under their headings. A column that has only numbers is aligned to the right. */
  table(headings: readonly string[], rows: readonly (readonly string[])[]): void {
    const all = [headings, ...rows];
    const widths = headings.map((_, column) =>
      all.reduce((widest, row) => Math.max(widest, widthOf(row[column] ?? '')), 0),
    );
    const isNumeric = headings.map(
      (_, column) => rows.length > 0 && rows.every((row) => /^\d+$/.test(row[column] ?? '')),
    );
    for (const row of all) {
      const cells = row.map((cell, column) => {
        const padding = ' '.repeat((widths[column] as number) - widthOf(cell));
        return isNumeric[column] ? padding + cell : cell + padding;
      });
      this.line(cells.join('  ').trimEnd());
    }
  }
}

/** Returns the width of the text in terminal columns. Assumes that each code point takes one column. */
function widthOf(text: string): number {
  return [...text].length;
}

/** Formats bytes for people: UTF-8 as text without control characters, other bytes in hexadecimal. */
export function readable(bytes: Uint8Array): string {
  const text = validTextOf(bytes);
  return text === undefined ? `0x${hexOf(bytes)}` : escapeControls(text);
}

/** Formats bytes or text for people: text as a JSON string, other bytes in hexadecimal. */
export function quoted(value: Uint8Array | string): string {
  const text = typeof value === 'string' ? value : validTextOf(value);
  return text === undefined ? readable(value as Uint8Array) : escapeControls(JSON.stringify(text));
}
