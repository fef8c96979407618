import type { Command } from 'commander';
import {
  type AnyMethod,
  allMethods,
  type BidiStream,
  enumValues,
  type FieldDescriptor,
  type FieldType,
  type FromJsonOptions,
  hexOf,
  type JsonObject,
  type JsonValue,
  MESSAGE_PREFIX_BYTES,
  messageFields,
  shortPath,
  stubOf,
  textOf,
  toBase64,
  toJson,
} from '../../../../src/internal.js';
import { base64Option, bytesAs, messageFrom } from '../arguments.js';
import { comments } from '../comments.js';
import { type Context, contextOf, withClient } from '../context.js';
import { CliError, ExitCode, wrongArguments } from '../exit-code.js';
import { spanText, typeText } from '../frames.js';
import { explain, type Span } from '../inspect/index.js';
import { type Io, linesOf, readAll } from '../io.js';

export function addRpcCommands(program: Command, io: Io): void {
  program
    .command('call')
    .argument('<method>', 'an RPC, such as KV/Range, KV.Range or Range')
    .argument('[json]', 'the request; - reads standard input, for a stream one message per line')
    .addOption(base64Option())
    .description("call any RPC with protobuf's JSON; streams are JSON lines")
    .action(async (name: string, json: string | undefined, flags: { readonly base64?: boolean }, command: Command) => {
      await call(contextOf(io, command), methodNamed(name), json, flags.base64 ?? false);
    });
  program
    .command('list')
    .description('list every RPC')
    .action((_, command: Command) => list(contextOf(io, command)));
  program
    .command('describe')
    .argument('<name>', 'an RPC, a service, a message or an enum, such as KV/Txn, Watch or RangeRequest')
    .option('--template', 'print JSON to fill in, for etcdwire call, instead of the definition')
    .description('print a definition from the .proto files')
    .action((name: string, { template }: { readonly template?: boolean }, command: Command) => {
      const context = contextOf(io, command);
      if (template) context.out.line(JSON.stringify(templateOf(name), null, 2));
      else describe(context, name);
    });
  program
    .command('decode')
    .argument('<message>', 'type of the message, such as PutRequest')
    .argument('<hex...>', 'bytes of the message in hexadecimal')
    .description('explain each byte of a message')
    .action((name: string, hex: string[], _, command: Command) => {
      printSpans(contextOf(io, command), messageNamed(name), bytesOf(hex.join('')));
    });
}

type Unary = (request: unknown, options: Context['call']) => Promise<unknown>;
type ServerStreaming = (request: unknown, options: Context['call']) => AsyncIterable<unknown>;
type Bidi = (options: Context['call']) => BidiStream<unknown, unknown>;

async function call(context: Context, method: AnyMethod, json: string | undefined, base64: boolean): Promise<void> {
  const { io, out, call: options } = context;
  const { bytesFromJson, bytesToJson } = bytesAs(base64);
  const fromJson: FromJsonOptions = { bytesFromJson };
  const parse = (message: string): unknown => messageFrom(method.request, message, 'the request', fromJson);
  const print = (response: unknown): void => out.json(toJson(method.response, response, bytesToJson));
  await withClient(context, async (client) => {
    const stub = stubOf(client.raw, method);
    if (method.kind === 'bidi-streaming') {
      const stream = (stub as Bidi)(options);
      const lines = json === '-' || json === undefined ? linesOf(io) : [json];
      const sending = (async () => {
        for await (const line of lines) if (line.trim() !== '') stream.send(parse(line) as object);
        stream.end();
      })();
      sending.catch(() => stream.cancel());
      for await (const response of stream) print(response);
      return sending;
    }
    const request = parse(json === '-' ? textOf(await readAll(io)) : (json ?? '{}'));
    if (method.kind === 'unary') return print(await (stub as Unary)(request, options));
    for await (const response of (stub as ServerStreaming)(request, options)) print(response);
  });
}

/**
 * Finds an RPC by its name.
 *
 * @throws CliError if there is no such RPC. The error message suggests RPCs of the same service.
 */
function methodNamed(name: string): AnyMethod {
  const method = findMethod(name);
  if (method !== undefined) return method;
  const [service = ''] = name.split('/');
  const near = allMethods.filter((each) => shortPath(each).toLowerCase().startsWith(service.toLowerCase()));
  const allowed = near.length === 0 ? 'an RPC that etcdwire list prints' : near.map(shortPath).join(', ');
  throw wrongArguments(`unknown RPC ${name}; allowed: ${allowed}`);
}

/**
 * Finds an RPC by its name, ignoring case: etcdserverpb.KV/Range or KV/Range, also with a dot or a space instead of the
 * slash, or only Range.
 */
export function findMethod(name: string): AnyMethod | undefined {
  return methodOfService(name) ?? allMethods.find(({ path }) => path.toLowerCase().endsWith(`/${name.toLowerCase()}`));
}

/** Finds an RPC by the names of its service and of the method. */
function methodOfService(name: string): AnyMethod | undefined {
  const wanted = `/${name.replace(/^\//, '').replace(/[. ](?=[^./ ]+$)/, '/')}`.toLowerCase();
  return allMethods.find(
    (each) => each.path.toLowerCase() === wanted || `/${shortPath(each)}`.toLowerCase() === wanted,
  );
}

/** Returns the method's key in the `comments` table, such as etcdserverpb.KV.Range. */
function commentName({ path }: AnyMethod): string {
  return path.slice(1).replace('/', '.');
}

function list({ out }: Context): void {
  const rows = allMethods.map((method) => ({
    path: method.path.slice(1),
    kind: method.kind,
    request: method.request.typeName,
    response: method.response.typeName,
    comment: comments[commentName(method)] ?? '',
  }));
  if (out.chosen === 'json') return out.json(rows);
  if (out.format !== 'table') {
    for (const { path } of rows) out.line(path);
    return;
  }
  const firstSentence = (text: string): string => text.replaceAll('\n', ' ').replace(/(?<=[.:])\s.*$/, '');
  out.table(
    ['RPC', 'KIND', 'DESCRIPTION'],
    rows.map(({ path, kind, comment }) => [path, kind, firstSentence(comment)]),
  );
}

/** A definition in a .proto file. */
interface Definition {
  readonly name: string;
  readonly kind: 'rpc' | 'service' | 'message' | 'enum';
  readonly comment: string;
  readonly members: readonly DefinitionMember[];
}

interface DefinitionMember {
  /** The declaration in the .proto file. */
  readonly declaration: string;
  readonly comment: string;
}

function describe({ out }: Context, name: string): void {
  const rpc = (method: AnyMethod | undefined): Definition | undefined =>
    method && definitionOf(commentName(method), 'rpc', [{ declaration: rpcDeclaration(method), comment: '' }]);
  // The name `Lock` means the service and not its RPC, because `serviceDefinition` comes before `findMethod`.
  const definition =
    rpc(methodOfService(name)) ?? typeDefinition(name) ?? serviceDefinition(name) ?? rpc(findMethod(name));
  if (definition === undefined)
    throw wrongArguments(
      `unknown RPC, service, message or enum ${name}; allowed: an RPC that etcdwire list prints, or its service or types`,
    );
  if (out.chosen === 'json') out.json({ ...definition, members: definition.members.map((each) => ({ ...each })) });
  else out.line(protoText(definition));
}

function definitionOf(name: string, kind: Definition['kind'], members: readonly DefinitionMember[]): Definition {
  return { name, kind, comment: comments[name] ?? '', members };
}

function memberOf(name: string, declaration: string): DefinitionMember {
  return { declaration, comment: comments[name] ?? '' };
}

function serviceDefinition(name: string): Definition | undefined {
  const serviceOf = ({ path }: AnyMethod): string => path.slice(1, path.lastIndexOf('/'));
  const found = allMethods.filter((each) => serviceOf(each) === name || shortPath(each).split('/')[0] === name);
  const [first] = found;
  if (first === undefined) return undefined;
  const members = found.map((each) => memberOf(commentName(each), rpcDeclaration(each)));
  return definitionOf(serviceOf(first), 'service', members);
}

function typeDefinition(name: string): Definition | undefined {
  const message = Object.keys(messageFields).find((each) => isNamed(each, name));
  if (message !== undefined) {
    const fields = messageFields[message] as readonly FieldDescriptor[];
    const members = fields.map((field) => memberOf(`${message}.${field.name}`, fieldDeclaration(field)));
    return definitionOf(message, 'message', members);
  }
  const type = Object.keys(enumValues).find((each) => isNamed(each, name));
  if (type === undefined) return undefined;
  const values = Object.entries(enumValues[type] as Readonly<Record<string, number>>);
  const members = values.map(([value, number]) => memberOf(`${type}.${value}`, `${value} = ${number}`));
  return definitionOf(type, 'enum', members);
}

/** Whether `name` is the name of the type, with or without its package, ignoring case. */
function isNamed(typeName: string, name: string): boolean {
  return `.${typeName}`.toLowerCase().endsWith(`.${name}`.toLowerCase());
}

function rpcDeclaration({ path, kind, request, response }: AnyMethod): string {
  const sent = `${kind === 'bidi-streaming' ? 'stream ' : ''}${request.typeName}`;
  const returned = `${kind === 'unary' ? '' : 'stream '}${response.typeName}`;
  return `rpc ${path.slice(path.lastIndexOf('/') + 1)}(${sent}) returns (${returned})`;
}

function fieldDeclaration({ number, name, type, repeated, oneof }: FieldDescriptor): string {
  const choice = oneof === undefined ? '' : `  // one of ${oneof}`;
  return `${repeated ? 'repeated ' : ''}${typeText(type)} ${name} = ${number}${choice}`;
}

function protoText({ name, kind, comment, members }: Definition): string {
  const note = (text: string, indent: string): string[] =>
    text === '' ? [] : text.split('\n').map((line) => `${indent}// ${line}`);
  if (kind === 'rpc') return [...note(comment, ''), ...members.map(({ declaration }) => declaration)].join('\n');
  const body = members.flatMap((each) => [...note(each.comment, '  '), `  ${each.declaration}`]);
  return [...note(comment, ''), `${kind} ${name} {`, ...body, '}'].join('\n');
}

/**
 * Returns JSON with every field of a message, or of the request of an RPC. Of the fields of a oneof, the JSON contains
 * only the first one.
 */
function templateOf(name: string): JsonValue {
  const method = methodOfService(name) ?? findMethod(name);
  return messageTemplate(method === undefined ? messageNamed(name) : method.request.typeName, []);
}

function messageTemplate(typeName: string, around: readonly string[]): JsonValue {
  // End the recursion at a message that contains itself, such as TxnRequest.
  if (around.includes(typeName)) return {};
  const oneofs = new Set<string>();
  const fields = (messageFields[typeName] ?? []).filter(({ oneof }) => {
    const isFirst = oneof === undefined || !oneofs.has(oneof);
    if (oneof !== undefined) oneofs.add(oneof);
    return isFirst;
  });
  return Object.fromEntries(
    fields.map(({ name, type, repeated }) => {
      const value = fieldTemplate(type, [...around, typeName]);
      return [name, repeated ? [value] : value];
    }),
  );
}

function fieldTemplate(type: FieldType, around: readonly string[]): JsonValue {
  if ('message' in type) return messageTemplate(type.message, around);
  if ('enum' in type) return Object.keys(enumValues[type.enum] ?? {})[0] ?? '';
  if (type.scalar === 'bool') return false;
  return type.scalar === 'bytes' || type.scalar === 'string' ? '' : 0;
}

/** Returns the full name of the message type that `name` names. @throws CliError if there is no such message type. */
function messageNamed(name: string): string {
  const found = Object.keys(messageFields).find((each) => isNamed(each, name));
  if (found !== undefined) return found;
  throw wrongArguments(
    `unknown message ${name}; allowed: a message that etcdwire describe prints, such as RangeRequest`,
  );
}

/** Parses bytes in hexadecimal. @throws CliError if the text is not hexadecimal, or if the bytes have a gRPC prefix. */
function bytesOf(text: string): Uint8Array {
  const hex = text.replaceAll(/\s|0x/g, '');
  if (!/^(?:[0-9a-f]{2})*$/i.test(hex))
    throw new CliError(
      ExitCode.DATA,
      'hex: got text that is not bytes in hexadecimal; allowed: pairs of hexadecimal digits',
    );
  const bytes = Uint8Array.from(Buffer.from(hex, 'hex'));
  // No message begins with the byte 0, but the prefix of an uncompressed gRPC message does.
  if (bytes[0] === 0 && bytes.length >= MESSAGE_PREFIX_BYTES)
    throw new CliError(
      ExitCode.DATA,
      `hex: got a message with the gRPC prefix of ${MESSAGE_PREFIX_BYTES} bytes; allowed: only the bytes after the prefix`,
    );
  return bytes;
}

function printSpans({ out }: Context, typeName: string, bytes: Uint8Array): void {
  for (const span of explain(typeName, bytes)) {
    if (out.format === 'json') out.json(spanJson(span, bytes));
    else out.line(spanText(span, bytes));
  }
}

function spanJson({ start, end, depth, part, number, wireType, field, value }: Span, bytes: Uint8Array): JsonObject {
  const plain = value instanceof Uint8Array ? toBase64(value) : typeof value === 'bigint' ? String(value) : value;
  return {
    offset: start,
    hex: hexOf(bytes.subarray(start, end)),
    depth,
    part,
    number,
    wireType,
    ...(field === undefined ? {} : { field: field.name, type: typeText(field.type) }),
    ...(plain === undefined ? {} : { value: plain }),
  };
}
