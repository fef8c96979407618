import type { ClientOptions } from '../client.js';
import type { TransportFactory } from '../transport/transport-options.js';
import type { Sink } from './output.js';

/** What a program is given by its surroundings. */
export interface Io {
  readonly stdin: AsyncIterable<Uint8Array>;
  readonly stdout: Sink;
  readonly stderr: Sink;
  /** Aborts when the user wants it to end: SIGINT, SIGTERM. The reason is the name of the signal. */
  readonly interrupted: AbortSignal;
  /** What carries the calls. Default: the client's own. */
  readonly transport?: TransportFactory | undefined;
  /** Told of the queue that a command is about to enter, before it does. */
  readonly entering?: ((options: ClientOptions, name: string) => Promise<void>) | undefined;
}

export async function readAll(stdin: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stdin) chunks.push(chunk);
  return Buffer.concat(chunks);
}
