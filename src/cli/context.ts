import type { Command } from 'commander';
import type { CallOptions } from '../channel/rpc.js';
import { Client, type ClientOptions } from '../client.js';
import type { LogDetails, Logger } from '../runtime/log.js';
import { type ConnectionFlags, clientOptions } from './connection.js';
import type { Io } from './io.js';
import { type Format, harmless, Output } from './output.js';

interface GlobalFlags extends ConnectionFlags {
  readonly writeOut?: Format;
}

/** What a command works with. */
export interface Context {
  readonly io: Io;
  readonly out: Output;
  /** A call's options: ended where the user wants no more. */
  readonly call: CallOptions;
  /** Of the flags; nothing is dialled before the first call. */
  connect(logger?: Logger): Client;
  /** To be called before a queue is entered. */
  entering(name: string): Promise<void>;
}

export function contextOf(io: Io, command: Command): Context {
  const flags = command.optsWithGlobals<GlobalFlags>();
  const connect = (logger?: Logger): Client => {
    const options: ClientOptions = clientOptions(flags);
    return new Client({ ...options, transport: io.transport, logger });
  };
  const entering = async (name: string): Promise<void> => io.entering?.(clientOptions(flags), name);
  return { io, out: new Output(io.stdout, flags.writeOut), call: { signal: io.interrupted }, connect, entering };
}

/** A client for the time of what is done with it. */
export async function withClient<T>(
  context: Context,
  use: (client: Client) => Promise<T>,
  logger?: Logger,
): Promise<T> {
  await using client = context.connect(logger);
  return await use(client);
}

/** For what goes on for ever: endpoints that fail, and work again, are told of on standard error. */
export function tellsOfEndpoints({ stderr }: Io): Logger {
  const tell = (message: string, { endpoint, problem }: LogDetails): void => {
    // Other lines tell what waits for an endpoint.
    if (!message.startsWith('endpoint ')) return;
    const cause = problem === undefined ? '' : `: ${harmless(String(problem))}; it is tried again`;
    // The text of an error often names the endpoint itself.
    const place = cause.includes(String(endpoint)) ? '' : `: ${endpoint}`;
    stderr.write(`etcdwire: ${message}${place}${cause}\n`);
  };
  return { info: tell, warn: tell };
}
