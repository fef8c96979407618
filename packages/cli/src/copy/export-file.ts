import { createHash } from 'node:crypto';
import {
  compareBytes,
  EtcdError,
  fromBase64,
  type KeyValue,
  toBase64,
  toBytes,
  validTextOf,
  type WireRange,
} from '../../../../src/internal.js';
import { CliError, ExitCode } from '../exit-code.js';

// The format of an export: lines of JSON. The first line says what the file is and at which revision the keys were
// read. A line for each key follows, in ascending order. The last line has the number of keys and the checksum of all
// bytes before that line, so that a reader can tell an incomplete export from a complete one. A key or a value that is
// not UTF-8 is in base64, in the field `key_base64` or `value_base64` instead of `key` or `value`.

/** The version of the format, in the first line. */
const VERSION = 1;
/** Length in UTF-16 units at which `ExportWriter.add` writes the collected lines. */
const WRITE_LENGTH = 65_536;
const LINE_FEED = 10;
/** Control characters that JSON.stringify does not escape. A terminal could execute them. */
const CONTROLS = /\p{Cc}/gu;

type WriteBytes = (bytes: Uint8Array) => Promise<void>;

/** Writes an export. Each method resolves when the destination has accepted the bytes. */
export class ExportWriter {
  readonly #write: WriteBytes;
  readonly #hash = createHash('sha256');
  count = 0;
  bytes = 0;

  constructor(write: WriteBytes) {
    this.#write = write;
  }

  begin(revision: bigint, { key, rangeEnd }: WireRange): Promise<void> {
    const range = { ...bytesField('key', key), ...(rangeEnd.length === 0 ? {} : bytesField('range_end', rangeEnd)) };
    return this.#add(lineOf({ etcdwire_export: VERSION, revision: String(revision), range }));
  }

  async add(kvs: Iterable<KeyValue>): Promise<void> {
    let lines = '';
    for (const { keyBytes: key, value, modRevision, lease } of kvs) {
      this.count += 1;
      lines += lineOf({
        ...bytesField('key', key),
        ...bytesField('value', value),
        mod_revision: String(modRevision),
        ...(lease === 0n ? {} : { lease: String(lease) }),
      });
      if (lines.length < WRITE_LENGTH) continue;
      await this.#add(lines);
      lines = '';
    }
    await this.#add(lines);
  }

  end(): Promise<void> {
    return this.#add(lineOf({ count: this.count, sha256: this.#hash.copy().digest('hex') }));
  }

  async #add(lines: string): Promise<void> {
    if (lines === '') return;
    const bytes = Buffer.from(lines);
    this.#hash.update(bytes);
    this.bytes += bytes.length;
    await this.#write(bytes);
  }
}

function lineOf(fields: object): string {
  const json = JSON.stringify(fields);
  return `${json.replace(CONTROLS, (control) => `\\u00${control.charCodeAt(0).toString(16)}`)}\n`;
}

/** Returns the field for a key or a value: text if the bytes are UTF-8, and otherwise base64. */
export function bytesField(name: string, bytes: Uint8Array): Readonly<Record<string, string>> {
  const text = validTextOf(bytes);
  return text === undefined ? { [`${name}_base64`]: toBase64(bytes) } : { [name]: text };
}

export interface ExportedKey {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  /** Whether the key was attached to a lease. */
  readonly hadLease: boolean;
}

/** What a complete export contains. */
export interface ExportSummary {
  readonly revision: bigint;
  readonly count: number;
  readonly withLease: number;
  readonly first: Uint8Array | undefined;
  readonly last: Uint8Array | undefined;
}

/** Reads an export to its end. @throws CliError if it is incomplete or malformed: see `exportedKeys`. */
export async function checkExport(chunks: AsyncIterable<Uint8Array>, source: string): Promise<ExportSummary> {
  let [count, withLease] = [0, 0];
  let first: Uint8Array | undefined;
  let last: Uint8Array | undefined;
  let revision = 0n;
  const keys = exportedKeys(chunks, source, (of) => {
    revision = of;
  });
  for await (const { key, hadLease } of keys) {
    count += 1;
    if (hadLease) withLease += 1;
    first ??= key;
    last = key;
  }
  return { revision, count, withLease, first, last };
}

/**
 * Yields the keys of an export. `onRevision` is called with the revision of the export, before the first key.
 *
 * @param source The name of the export, for error messages.
 * @throws CliError if a line is malformed, if the keys are not in ascending order, or if the last line is missing or
 * does not match the lines before it. The generator yields keys before it throws. Therefore a caller should first read
 * the whole export with `checkExport`.
 */
export async function* exportedKeys(
  chunks: AsyncIterable<Uint8Array>,
  source: string,
  onRevision: (revision: bigint) => void = () => {},
): AsyncGenerator<ExportedKey, void> {
  const hash = createHash('sha256');
  let number = 0;
  let count = 0;
  let isComplete = false;
  let previous: Uint8Array | undefined;
  const wrong = (problem: string): CliError => new CliError(ExitCode.DATA, `${source}, line ${number}: ${problem}`);
  for await (const line of linesOf(chunks)) {
    number += 1;
    if (isComplete) throw wrong('got a line after the line with the checksum');
    const fields = fieldsOf(line, wrong);
    if (number === 1) {
      if (fields.etcdwire_export !== VERSION)
        throw wrong(`not an export of this version of etcdwire, whose first line has "etcdwire_export":${VERSION}`);
      const { revision } = fields;
      if (typeof revision !== 'string' || !/^\d{1,19}$/.test(revision)) throw wrong('the revision is malformed');
      onRevision(BigInt(revision));
    } else if ('sha256' in fields) {
      if (fields.count !== count || fields.sha256 !== hash.copy().digest('hex'))
        throw wrong('the count or the checksum does not match the lines before; the file was damaged or edited');
      isComplete = true;
    } else {
      const key = bytesOf(fields, 'key', wrong);
      if (key.length === 0) throw wrong('the key is empty');
      if (previous !== undefined && compareBytes(previous, key) >= 0)
        throw wrong('the keys are not in ascending order');
      previous = key;
      count += 1;
      yield { key, value: bytesOf(fields, 'value', wrong), hadLease: 'lease' in fields };
    }
    hash.update(line).update('\n');
  }
  if (isComplete) return;
  throw new CliError(
    ExitCode.DATA,
    `${source} is incomplete: its last line, with the count and the checksum, is missing; export the keys again`,
  );
}

/** Yields the lines without their line feeds. Does not yield an incomplete last line. */
async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  let rest: Uint8Array[] = [];
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      const piece = chunk.subarray(start, end);
      yield rest.length === 0 ? piece : Buffer.concat([...rest, piece]);
      rest = [];
      start = end + 1;
    }
    if (start < chunk.length) rest.push(chunk.slice(start));
  }
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(line: Uint8Array, wrong: (problem: string) => CliError): Fields {
  const text = validTextOf(line);
  if (text === undefined) throw wrong('not UTF-8');
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // The message of the error would contain a part of the line.
    throw wrong('not JSON');
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) throw wrong('not a JSON object');
  return json as Fields;
}

function bytesOf(fields: Fields, name: string, wrong: (problem: string) => CliError): Uint8Array {
  const text = fields[name];
  const base64 = fields[`${name}_base64`];
  if ((text === undefined) === (base64 === undefined)) throw wrong(`needs either ${name} or ${name}_base64`);
  try {
    if (typeof text === 'string') return toBytes(text, name);
    if (typeof base64 === 'string') return fromBase64(base64, `${name}_base64`);
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
  }
  throw wrong(`${text === undefined ? `${name}_base64` : name} is malformed`);
}
