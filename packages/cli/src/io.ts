import {
  type ClientOptions,
  canceled,
  type EtcdError,
  LineSplitter,
  orAborted,
  type TransportFactory,
} from '../../../src/internal.js';
import type { EtcdctlMode } from './etcdctl/mode.js';
import type { Sink } from './output-base.js';

/** The environment in which the program runs. */
export interface Io {
  readonly stdin: AsyncIterable<Uint8Array>;
  readonly stdout: Sink;
  readonly stderr: Sink;
  /** Aborts when a signal such as SIGINT asks the program to end. The reason is the name of the signal. */
  readonly interrupted: AbortSignal;
  /** Creates the client's transport. Default: the client's default transport, HTTP/2. */
  readonly transport?: TransportFactory | undefined;
  /** Set if the program stands in for etcdctl. */
  readonly etcdctl?: EtcdctlMode | undefined;
  /**
   * Runs before a command enters the queue of a lock or an election. `name` is the name of the lock or the election.
   */
  readonly onEnterQueue?: ((options: ClientOptions, name: string) => Promise<void>) | undefined;
}

/** Reads all of standard input. @throws EtcdError, reason `Canceled`, if the program is interrupted before the end. */
export async function readAll(io: Io): Promise<Uint8Array> {
  const { stdin, stderr } = io;
  if ('isTTY' in stdin && stdin.isTTY) stderr.write('etcdwire: reading standard input; end it with Ctrl-D\n');
  const chunks: Uint8Array[] = [];
  for await (const chunk of chunksOf(io)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** The standard input, and the signal that ends its reading early. A guard process has no such signal. */
type Input = Pick<Io, 'stdin'> & Partial<Pick<Io, 'interrupted'>>;

/**
 * Yields the lines of standard input as they arrive.
 *
 * @throws EtcdError, reason `Canceled`, if the program is interrupted before the end.
 */
export async function* linesOf(input: Input): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  const lines = new LineSplitter();
  for await (const chunk of chunksOf(input)) yield* lines.push(decoder.decode(chunk, { stream: true }));
  if (lines.rest !== '') yield lines.rest;
}

async function* chunksOf({ stdin, interrupted }: Input): AsyncGenerator<Uint8Array, void> {
  if (interrupted === undefined) return yield* stdin;
  const chunks = stdin[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await orAborted(chunks.next(), interrupted);
      if (done) return;
      yield value;
    }
  } catch (error) {
    throw interrupted.aborted ? interruptedBy({ interrupted }) : error;
  } finally {
    // After an interruption, `return` would wait for the `next` that still waits for input.
    if (!interrupted.aborted) await chunks.return?.();
  }
}

/** Returns the error of a command that ends because the program is interrupted. */
export function interruptedBy({ interrupted }: Pick<Io, 'interrupted'>): EtcdError {
  return canceled(interrupted, 'not-sent', 'etcdwire');
}
