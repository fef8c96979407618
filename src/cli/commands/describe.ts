import type { Command } from 'commander';
import { comments } from '../../gen/comments.js';
import { enumValues, messageFields } from '../../gen/descriptors.js';
import { type AnyMethod, allMethods } from '../../protobuf/method-table.js';
import type { FieldDescriptor } from '../../protobuf/schema.js';
import { type Context, contextOf } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import type { Io } from '../io.js';
import { findMethod, isNamed, shortPath } from '../method-name.js';
import { typeText } from '../type-text.js';

export function addDescribeCommands(program: Command, io: Io): void {
  program
    .command('list')
    .description('every RPC')
    .action((_, command: Command) => list(contextOf(io, command)));
  program
    .command('describe')
    .argument('<name>', 'an RPC, a service, a message or an enum, such as KV/Txn, Watch or RangeRequest')
    .description('what it is, from the .proto files')
    .action((name: string, _, command: Command) => describe(contextOf(io, command), name));
}

function list({ out }: Context): void {
  const rows = allMethods.map(({ path, kind, request, response }) => ({
    path: path.slice(1),
    kind,
    request: request.typeName,
    response: response.typeName,
    comment: comments[fullName(path)] ?? '',
  }));
  if (out.format === 'json') return out.json(rows);
  if (out.format === 'simple') {
    for (const { path } of rows) out.line(path);
    return;
  }
  const summary = ({ comment }: { readonly comment: string }): string => firstSentence(comment);
  out.table(
    ['RPC', 'KIND', 'WHAT IT DOES'],
    rows.map((row) => [row.path, row.kind, summary(row)]),
  );
}

function describe({ out }: Context, name: string): void {
  const method = findMethod(name);
  const what = method === undefined ? (typeNamed(name) ?? serviceNamed(name)) : methodJson(method);
  if (what === undefined)
    throw new CliError(
      ExitCode.USAGE,
      `no RPC, service, message or enum ${name}; allowed: those of etcdwire list, and what they name`,
    );
  if (out.format === 'json') out.json(what as never);
  else out.line(asProto(what));
}

interface Described {
  readonly name: string;
  readonly kind: 'rpc' | 'service' | 'message' | 'enum';
  readonly comment: string;
  readonly members: readonly Member[];
}

interface Member {
  /** As it stands in a .proto file. */
  readonly declaration: string;
  readonly comment: string;
}

function methodJson(method: AnyMethod): Described {
  const name = fullName(method.path);
  return {
    name,
    kind: 'rpc',
    comment: comments[name] ?? '',
    members: [{ declaration: rpcDeclaration(method), comment: '' }],
  };
}

function serviceNamed(name: string): Described | undefined {
  const methods = allMethods.filter((each) => serviceOf(each) === name || shortPath(each).split('/')[0] === name);
  const [first] = methods;
  if (first === undefined) return undefined;
  return {
    name: serviceOf(first),
    kind: 'service',
    comment: comments[serviceOf(first)] ?? '',
    members: methods.map((each) => ({
      declaration: rpcDeclaration(each),
      comment: comments[fullName(each.path)] ?? '',
    })),
  };
}

function typeNamed(name: string): Described | undefined {
  const isMeant = (each: string): boolean => isNamed(each, name);
  const message = Object.keys(messageFields).find(isMeant);
  if (message !== undefined) {
    const fields = messageFields[message] as readonly FieldDescriptor[];
    const members = fields.map((field) => ({
      declaration: fieldDeclaration(field),
      comment: comments[`${message}.${field.name}`] ?? '',
    }));
    return { name: message, kind: 'message', comment: comments[message] ?? '', members };
  }
  const type = Object.keys(enumValues).find(isMeant);
  if (type === undefined) return undefined;
  const members = Object.entries(enumValues[type] as Readonly<Record<string, number>>).map(([value, number]) => ({
    declaration: `${value} = ${number}`,
    comment: comments[`${type}.${value}`] ?? '',
  }));
  return { name: type, kind: 'enum', comment: comments[type] ?? '', members };
}

function rpcDeclaration({ path, kind, request, response }: AnyMethod): string {
  const stream = (streams: boolean): string => (streams ? 'stream ' : '');
  const name = path.slice(path.lastIndexOf('/') + 1);
  return `rpc ${name}(${stream(kind === 'bidi-streaming')}${request.typeName}) returns (${stream(kind !== 'unary')}${response.typeName})`;
}

function fieldDeclaration({ number, name, type, repeated, oneof }: FieldDescriptor): string {
  const choice = oneof === undefined ? '' : `  // one of ${oneof}`;
  return `${repeated ? 'repeated ' : ''}${typeText(type)} ${name} = ${number}${choice}`;
}

function asProto({ name, kind, comment, members }: Described): string {
  const note = (text: string, indent: string): string[] =>
    text === '' ? [] : text.split('\n').map((line) => `${indent}// ${line}`);
  if (kind === 'rpc') return [...note(comment, ''), ...members.map(({ declaration }) => declaration)].join('\n');
  const body = members.flatMap((each) => [...note(each.comment, '  '), `  ${each.declaration}`]);
  return [...note(comment, ''), `${kind} ${name} {`, ...body, '}'].join('\n');
}

function serviceOf({ path }: AnyMethod): string {
  return path.slice(1, path.lastIndexOf('/'));
}

/** Of an RPC, as comments have it. */
function fullName(path: string): string {
  return path.slice(1).replace('/', '.');
}

function firstSentence(text: string): string {
  return text.replaceAll('\n', ' ').replace(/(?<=[.:])\s.*$/, '');
}
