import { validTextOf } from '../../../../src/internal.js';

// This file formats values as functions of Go's standard library do, which etcdctl uses for its output.

/** Characters that Go's `strconv.IsPrint` regards as printable: the space, letters, marks, numbers, and punctuation. */
const PRINTABLE = /^[ \p{L}\p{M}\p{N}\p{P}\p{S}]$/u;
const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  '\x07': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
  '"': '\\"',
  '\\': '\\\\',
};

/** Formats text or bytes as the verb %q does. A byte that is not UTF-8 becomes an escape such as \xff. */
export function goQuoted(value: Uint8Array | string): string {
  if (typeof value === 'string') return `"${[...value].map(goEscaped).join('')}"`;
  let quoted = '';
  for (let at = 0; at < value.length; ) {
    const length = characterLength(value, at);
    const text = validTextOf(value.subarray(at, at + length));
    quoted += text === undefined ? `\\x${hexByte(value[at] as number)}` : goEscaped(text);
    at += text === undefined ? 1 : length;
  }
  return `"${quoted}"`;
}

function goEscaped(character: string): string {
  const short = SHORT_ESCAPES[character];
  if (short !== undefined) return short;
  if (PRINTABLE.test(character)) return character;
  const code = character.codePointAt(0) as number;
  if (code < 0x80) return `\\x${hexByte(code)}`;
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
}

/** Returns the number of bytes that the UTF-8 character at `at` should have, judged by its first byte. */
function characterLength(bytes: Uint8Array, at: number): number {
  const first = bytes[at] as number;
  if (first < 0xc0) return 1;
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : 4;
}

function hexByte(byte: number): string {
  return byte.toString(16).padStart(2, '0');
}

/** Formats a string as `encoding/json` does, which also escapes characters that are special in HTML. */
export function goJsonString(text: string): string {
  return JSON.stringify(text).replace(/[<>&\u2028\u2029\x7f]/g, (character) =>
    character === '\x7f' ? character : `\\u${(character.codePointAt(0) as number).toString(16).padStart(4, '0')}`,
  );
}

/** Formats a duration in milliseconds as `time.Duration.String` does, for example `4.041386ms` or `1m2.5s`. */
export function goDuration(ms: number): string {
  const nanoseconds = Math.round(ms * 1e6);
  if (nanoseconds === 0) return '0s';
  if (nanoseconds < 1_000) return `${nanoseconds}ns`;
  if (nanoseconds < 1_000_000) return `${nanoseconds / 1_000}µs`;
  if (nanoseconds < 1_000_000_000) return `${nanoseconds / 1_000_000}ms`;
  const seconds = Math.floor(nanoseconds / 1e9);
  const fraction = String((nanoseconds % 1e9) / 1e9).slice(1);
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60];
  const start = hours > 0 ? `${hours}h${minutes}m` : minutes > 0 ? `${minutes}m` : '';
  return `${start}${seconds % 60}${fraction}s`;
}

/** Formats a size in bytes as `humanize.Bytes` of go-humanize does, in powers of 1000. */
export function goSize(bytes: bigint): string {
  const size = Number(bytes);
  if (size < 10) return `${size} B`;
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'];
  const power = Math.floor(Math.log(size) / Math.log(1_000));
  const value = Math.floor((size / 1_000 ** power) * 10 + 0.5) / 10;
  return `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ${units[power]}`;
}

/** A column of a table is at most this wide before its text continues on the next line. */
const MAX_COLUMN_WIDTH = 30;

/** Formats a table as the package tablewriter does: headings in capitals and centered, cells aligned to the right. */
export function goTable(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const heads = headings.map((each) => each.replaceAll('_', ' ').toUpperCase());
  const cells = rows.map((row) => row.map((cell) => wrapped(cell)));
  const widths = heads.map((head, column) =>
    Math.max(head.length, ...cells.flatMap((row) => (row[column] ?? []).map((line) => [...line].length))),
  );
  const rule = `+${widths.map((width) => '-'.repeat(width + 2)).join('+')}+\n`;
  const line = (texts: readonly string[]): string => `|${texts.map((text) => ` ${text} `).join('|')}|\n`;
  const centered = (text: string, width: number): string => {
    const left = Math.floor((width - text.length) / 2);
    return ' '.repeat(left) + text + ' '.repeat(width - text.length - left);
  };
  const lines = cells.flatMap((row) =>
    Array.from({ length: Math.max(...row.map((cell) => cell.length)) }, (_, index) =>
      line(row.map((cell, column) => (cell[index] ?? '').padStart(widths[column] as number))),
    ),
  );
  return [rule, line(heads.map((head, column) => centered(head, widths[column] as number))), rule, ...lines, rule].join(
    '',
  );
}

/** Divides a cell with several words into lines of at most `MAX_COLUMN_WIDTH` characters where possible. */
function wrapped(cell: string): readonly string[] {
  const words = cell.split(/[ \n]/);
  const limit = Math.max(MAX_COLUMN_WIDTH, (words.at(-1) ?? '').length);
  const lines: string[] = [];
  for (const word of words) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= limit) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
