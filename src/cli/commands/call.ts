import type { Command } from 'commander';
import type { BidiStream } from '../../channel/message-stream.js';
import type { Client } from '../../client.js';
import { methods } from '../../gen/methods.js';
import type { FromJsonOptions } from '../../protobuf/json.js';
import { toJson } from '../../protobuf/json.js';
import { type AnyMethod, allMethods } from '../../protobuf/method-table.js';
import { textOf } from '../../runtime/bytes.js';
import { type Context, contextOf, withClient } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import { type Io, linesOf, readAll } from '../io.js';
import { bytesAs, messageFrom } from '../json-text.js';
import { findMethod, shortPath } from '../method-name.js';

interface CallFlags {
  readonly text?: boolean;
}

export function addCallCommand(program: Command, io: Io): void {
  program
    .command('call')
    .argument('<method>', 'SERVICE/METHOD, such as KV/Range')
    .argument('[json]', 'the request; - is standard input, where a stream takes one message a line')
    .option('--text', 'bytes are text, not base64')
    .description("any RPC, from and to protobuf's JSON; streams are JSON lines")
    .action(async (name: string, json: string | undefined, { text = false }: CallFlags, command: Command) => {
      const context = contextOf(io, command);
      const method = methodNamed(name);
      const { bytesFromJson, bytesToJson } = bytesAs(text);
      const tell = (answer: unknown): void => context.out.json(toJson(method.response, answer, bytesToJson));
      await withClient(context, (client) => call(context, { client, method, json, tell, options: { bytesFromJson } }));
    });
}

interface Calling {
  readonly client: Client;
  readonly method: AnyMethod;
  readonly json: string | undefined;
  readonly tell: (answer: unknown) => void;
  readonly options: FromJsonOptions;
}

type Unary = (request: unknown, options: Context['call']) => Promise<unknown>;
type ServerStreaming = (request: unknown, options: Context['call']) => AsyncIterable<unknown>;
type Bidi = (options: Context['call']) => BidiStream<unknown, unknown>;

async function call(context: Context, { client, method, json, tell, options }: Calling): Promise<void> {
  const stub = stubOf(client, method);
  const read = (text: string): unknown => messageFrom(method.request, text, 'the request', options);
  if (method.kind === 'bidi-streaming') {
    const stream = (stub as Bidi)(context.call);
    const sending = sendAll(stream, json === '-' || json === undefined ? linesOf(context.io) : [json], read);
    sending.catch(() => stream.cancel());
    for await (const answer of stream) tell(answer);
    return sending;
  }
  const request = read(json === '-' ? textOf(await readAll(context.io)) : (json ?? '{}'));
  if (method.kind === 'unary') return tell(await (stub as Unary)(request, context.call));
  for await (const answer of (stub as ServerStreaming)(request, context.call)) tell(answer);
}

async function sendAll(
  stream: BidiStream<unknown, unknown>,
  lines: AsyncIterable<string> | Iterable<string>,
  read: (text: string) => unknown,
): Promise<void> {
  for await (const line of lines) if (line.trim() !== '') stream.send(read(line) as object);
  stream.end();
}

function stubOf(client: Client, { path }: AnyMethod): unknown {
  for (const [service, table] of Object.entries(methods)) {
    for (const [name, method] of Object.entries(table)) {
      if (method.path === path) return (client.raw as Record<string, Record<string, unknown>>)[service]?.[name];
    }
  }
  return undefined;
}

/** @throws CliError */
function methodNamed(name: string): AnyMethod {
  const method = findMethod(name);
  if (method !== undefined) return method;
  const [service = ''] = name.split('/');
  const near = allMethods.filter((each) => shortPath(each).toLowerCase().startsWith(service.toLowerCase()));
  const allowed = near.length === 0 ? 'those that etcdwire list prints' : near.map(shortPath).join(', ');
  throw new CliError(ExitCode.USAGE, `no RPC ${name}; allowed: ${allowed}`);
}
