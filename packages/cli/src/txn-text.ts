import { Command } from 'commander';
import {
  type CompareMessage,
  CompareResult,
  CompareTarget,
  type Init,
  type RequestOp,
  type TxnRequest,
  textOf,
  validTextOf,
} from '../../../src/internal.js';
import { leaseId } from './arguments.js';
import { defineDel, defineGet, definePut, putRequest } from './commands/key-flags.js';
import { type Context, readText } from './context.js';
import { warnOfRange } from './etcdctl/questions.js';
import { CliError, ExitCode } from './exit-code.js';
import { walkArguments } from './go-arguments.js';
import { linesOf, readAll } from './io.js';

// This file reads the text of a transaction that `etcdctl txn` reads: lines with comparisons, lines with requests to
// make if all comparisons hold, and lines with requests to make otherwise. An empty line ends each of the three parts.

type Io = Context['io'];
type ParseJson = (json: string, source: string) => Init<TxnRequest>;

/**
 * Reads a transaction from a file, or from standard input if `file` is `-`. Text that begins with `{` is JSON.
 *
 * @throws CliError that names the line if the text is wrong.
 */
export async function readTxn(
  { io }: Context,
  file: string,
  interactive: boolean,
  parseJson: ParseJson,
): Promise<Init<TxnRequest>> {
  if (io.etcdctl === undefined && !interactive) {
    const text = file === '-' ? textOf(await readAll(io)) : readText(file);
    const source = file === '-' ? 'standard input' : file;
    return text.trimStart().startsWith('{') ? parseJson(text, source) : parseText(io, linesIn(text), () => {});
  }
  const prompt = (text: string): void => {
    if (interactive) io.stdout.write(`${text}\n`);
  };
  return parseText(io, wholeLines(io), prompt);
}

async function parseText(
  io: Io,
  lines: AsyncGenerator<string, void>,
  prompt: (text: string) => void,
): Promise<Init<TxnRequest>> {
  prompt('compares:');
  const compare: Init<CompareMessage>[] = [];
  for await (const line of part(io, lines)) compare.push(parseCompare(io, line));
  const requests = async (name: string): Promise<Init<RequestOp>[]> => {
    prompt(`${name} requests (get, put, del):`);
    const parsed: Init<RequestOp>[] = [];
    for await (const line of part(io, lines)) parsed.push(await parseRequest(io, line));
    return parsed;
  };
  const success = await requests('success');
  return { compare, success, failure: await requests('failure') };
}

/** Yields the lines up to an empty line. @throws CliError if the lines end earlier, in the mode of etcdctl. */
async function* part(io: Io, lines: AsyncGenerator<string, void>): AsyncGenerator<string, void> {
  for (;;) {
    const { done, value } = await lines.next();
    const [line = ''] = TRIMMED.exec(value ?? '') ?? [];
    if (done) io.etcdctl?.refuse('endOfText');
    if (done || line === '') return;
    yield line;
  }
}

async function* linesIn(text: string): AsyncGenerator<string, void> {
  yield* text.split('\n');
}

/** Yields the lines of standard input as they arrive. Like etcdctl, ignores an end without a newline in that mode. */
async function* wholeLines(io: Io): AsyncGenerator<string, void> {
  let hasEnded = false;
  let last: number | undefined;
  const chunks = async function* (): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of io.stdin) {
      last = chunk.at(-1) ?? last;
      yield chunk;
    }
    hasEnded = true;
  };
  for await (const line of linesOf({ stdin: chunks(), interrupted: io.interrupted })) {
    if (hasEnded && last !== NEWLINE && io.etcdctl !== undefined) return;
    yield line;
  }
}

const NEWLINE = 10;
/** Text in double quotes with Go's escapes, or in backquotes without escapes. */
const QUOTED = /"(?:[^"\\\n]|\\.)*"|`[^`]*`/y;

const TARGETS: Readonly<Record<string, 'version' | 'createRevision' | 'modRevision' | 'value' | 'lease'>> = {
  ver: 'version',
  version: 'version',
  c: 'createRevision',
  create: 'createRevision',
  m: 'modRevision',
  mod: 'modRevision',
  val: 'value',
  value: 'value',
  lease: 'lease',
};
const WIRE_TARGETS = {
  version: CompareTarget.VERSION,
  createRevision: CompareTarget.CREATE,
  modRevision: CompareTarget.MOD,
  value: CompareTarget.VALUE,
  lease: CompareTarget.LEASE,
} as const;
const RESULTS: Readonly<Record<string, CompareResult>> = {
  '=': CompareResult.EQUAL,
  '!=': CompareResult.NOT_EQUAL,
  '>': CompareResult.GREATER,
  '<': CompareResult.LESS,
};

/** Parses a comparison such as `mod("key") > "0"`. */
function parseCompare(io: Io, line: string): Init<CompareMessage> {
  const paren = line.indexOf('(');
  const refused = (problem: string): CliError => lineError(io, problem);
  if (paren === -1) throw refused(`malformed comparison: ${line}`);
  const name = line.slice(0, paren);
  const rest = line.slice(paren + 1);
  const key = quotedAt(rest, 0);
  const [, operator = '', value] = key === undefined ? [] : comparisonAfter(rest.slice(key.end));
  if (key === undefined || value === undefined) {
    const found = `${name}(${JSON.stringify(textOf(key?.bytes ?? EMPTY))}) ${operator} ""`;
    throw refused(`malformed comparison: ${line}; got ${found}`);
  }
  const target = TARGETS[name];
  if (target === undefined) throw refused(`malformed comparison: ${line} (unknown target ${name})`);
  const result = RESULTS[operator];
  if (result === undefined) throw refused(`malformed comparison: ${line} (got "${operator}"; allowed: =, !=, > and <)`);
  const number = target === 'lease' ? leaseIn : numberIn;
  const targetUnion = { case: target, value: target === 'value' ? value.bytes : number(io, line, value.bytes) };
  return { target: WIRE_TARGETS[target], result, key: key.bytes, targetUnion } as Init<CompareMessage>;
}

const EMPTY = new Uint8Array(0);

/** Returns the operator and the value after the key. */
function comparisonAfter(text: string): readonly [string, string?, (Quoted | undefined)?] {
  const [all = '', operator = ''] = /^\) +(\S+)/.exec(text) ?? [];
  if (operator === '') return [text];
  const space = /^\s*/.exec(text.slice(all.length))?.[0].length ?? 0;
  return [text, operator, quotedAt(text, all.length + space)];
}

interface Quoted {
  readonly bytes: Uint8Array;
  /** Index after the closing quote. */
  readonly end: number;
}

function quotedAt(text: string, at: number): Quoted | undefined {
  QUOTED.lastIndex = at;
  const [found] = QUOTED.exec(text) ?? [];
  const bytes = found === undefined ? undefined : unquoted(found);
  return bytes === undefined ? undefined : { bytes, end: at + (found as string).length };
}

function numberIn(io: Io, line: string, value: Uint8Array): bigint {
  const text = textOf(value);
  const number = /^[+-]?\d{1,19}$/.test(text) ? BigInt(text.replace('+', '')) : 2n ** 63n;
  if (BigInt.asIntN(64, number) !== number) throw lineError(io, `invalid txn compare request: ${line}`);
  return number;
}

/** Reads a lease ID as the other commands do: see `leaseId`. 0 stands for no lease. */
function leaseIn(io: Io, line: string, value: Uint8Array): bigint {
  const text = textOf(value);
  try {
    return /^(?:0x)?0+$/i.test(text) ? 0n : leaseId(text);
  } catch {
    throw lineError(io, `invalid lease ID, expecting hexadecimal: ${line}`);
  }
}

/** Parses a request such as `put key "some text" --prev-kv`. */
async function parseRequest(io: Io, line: string): Promise<Init<RequestOp>> {
  const args = wordsOf(io, line);
  if (args.length < 2) throw lineError(io, `invalid txn compare request: ${line}`);
  let request: Init<RequestOp>['request'];
  const parser = new Command().exitOverride().configureOutput({ writeErr: () => {}, writeOut: () => {} });
  defineGet(parser, async (value) => {
    request = { case: 'requestRange', value };
  });
  definePut(parser, async (key, given, flags) => {
    if (given === undefined && !flags.ignoreValue) io.etcdctl?.refuse('emptyValue');
    request = { case: 'requestPut', value: putRequest(key, given, flags) };
  });
  defineDel(parser, async (range, { prevKv, range: isSure }, command) => {
    if (io.etcdctl !== undefined && !isSure) await warnOfRange(io, command.args);
    request = { case: 'requestDeleteRange', value: { ...range, prevKv } };
  });
  let isParsed = false;
  parser.hook('preAction', () => {
    isParsed = true;
  });
  io.etcdctl?.prepare(parser);
  try {
    await parser.parseAsync(walkArguments(io, parser, args).args, { from: 'user' });
  } catch (error) {
    throw isParsed ? error : lineError(io, `invalid txn request: ${line}`);
  }
  return { request };
}

/**
 * Words, and text in double or single quotes. Go's `\s` matches only these five characters. The `\s` of JavaScript also
 * matches a no-break space, for example, and would divide a key that contains one.
 */
const WORDS = /"(?:[^"\\]|\\.)*"|'[^']*'|[^'"\t\n\f\r ][^\t\n\f\r ]*[^'"\t\n\f\r ]?/g;
/** The part of a line that Go's `strings.TrimSpace` keeps. The method `trim` of strings would also remove U+FEFF. */
const TRIMMED = /\P{White_Space}(?:.*\P{White_Space})?/su;

/** Divides a line into words as etcdctl does. @throws CliError if a word is not UTF-8. */
export function wordsOf(io: Io, line: string): readonly string[] {
  return (line.match(WORDS) ?? []).map((word) => {
    if (word.startsWith("'")) return word.slice(1, -1);
    if (!word.startsWith('"')) return word;
    const bytes = unquoted(word);
    const text = bytes === undefined ? undefined : validTextOf(bytes);
    if (text === undefined) throw lineError(io, `invalid text in quotes: ${word}; allowed: UTF-8 with escapes of Go`);
    return text;
  });
}

const ESCAPES: Readonly<Record<string, number>> = { a: 7, b: 8, f: 12, n: 10, r: 13, t: 9, v: 11, '\\': 92, '"': 34 };
const ESCAPE = /\\(?:x([\da-fA-F]{2})|([0-7]{3})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|(.))/g;

/** Returns the bytes of a string literal of Go, or undefined if an escape is invalid. */
function unquoted(literal: string): Uint8Array | undefined {
  const inner = literal.slice(1, -1);
  if (literal.startsWith('`')) return Buffer.from(inner);
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const match of inner.matchAll(ESCAPE)) {
    const [all, hex, octal, short, long, other = ''] = match;
    const byte = hex ?? octal;
    const code = short ?? long;
    parts.push(Buffer.from(inner.slice(at, match.index)));
    if (byte !== undefined) parts.push(Uint8Array.of(Number.parseInt(byte, hex === undefined ? 8 : 16)));
    else if (code !== undefined) parts.push(Buffer.from(String.fromCodePoint(Number.parseInt(code, 16))));
    else if (ESCAPES[other] === undefined) return undefined;
    else parts.push(Uint8Array.of(ESCAPES[other]));
    at = match.index + all.length;
  }
  return Buffer.concat([...parts, Buffer.from(inner.slice(at))]);
}

function lineError(io: Io, problem: string): CliError {
  return io.etcdctl?.invalidInput(problem) ?? new CliError(ExitCode.DATA, problem);
}
