import type { ClientOptions } from '../client.js';
import { canceled, type EtcdError } from '../errors/etcd-error.js';
import { onAbort } from '../runtime/signals.js';
import { Lines } from '../runtime/text.js';
import type { TransportFactory } from '../transport/transport.js';
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

/** @throws EtcdError, reason `Canceled`, where the user has enough before it ends. */
export async function readAll(io: Io): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let offAbort = (): void => {};
  const interruption = new Promise<never>((_, reject) => {
    offAbort = onAbort(io.interrupted, () => reject(interruptedBy(io)));
  });
  const reading = (async () => {
    for await (const chunk of io.stdin) chunks.push(chunk);
  })();
  try {
    await Promise.race([reading, interruption]);
  } finally {
    offAbort();
    // Given up: what it still says is of no use to anybody.
    reading.catch(() => {});
  }
  return Buffer.concat(chunks);
}

/** The lines of standard input, as they come. */
export async function* linesOf({ stdin }: Pick<Io, 'stdin'>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  const lines = new Lines();
  for await (const chunk of stdin) yield* lines.push(decoder.decode(chunk, { stream: true }));
  if (lines.rest !== '') yield lines.rest;
}

/** What ends a command that the user wants to end. */
export function interruptedBy({ interrupted }: Io): EtcdError {
  return canceled(interrupted, 'not-sent', 'etcdwire');
}
