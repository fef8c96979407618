import {
  type Client,
  EtcdError,
  type Interceptor,
  KeyValueMessage,
  keysOf,
  methods,
  type ResponseHeader,
  type WatchBatch,
  type WatchEvent,
  wireOf,
} from '../../../../src/internal.js';
import { runProgram } from '../child.js';
import type { KeyFlags } from '../commands/key-flags.js';
import type { Watched } from '../commands/watched.js';
import { type Context, withClient } from '../context.js';
import { ExitCode } from '../exit-code.js';
import { notingResponses } from '../noted-responses.js';
import { ETCDCTL_EXIT, EtcdctlError, goErrorText } from './errors.js';
import { goQuoted } from './go-format.js';
import type { WatchedEvents } from './go-json.js';
import type { EtcdctlPrinter } from './printer.js';

/** The header of a response, and the revision of its last event. */
interface ResponseEnd {
  readonly header: ResponseHeader;
  readonly revision: bigint;
}

/**
 * Joins the events of a watch into the groups in which the server sent them, because etcdctl prints the events of a
 * response together, with the header of the response. The client itself does not keep headers.
 */
export class WatchResponses {
  readonly #ends: ResponseEnd[] = [];
  #last: ResponseHeader | undefined;
  #events: WatchEvent[] = [];
  /** Receives the responses of the only watch of a client. */
  readonly interceptor: Interceptor = {
    stream: (call, handler, next) => {
      if (call.method.path !== methods.watch.watch.path) return next(call, handler);
      return next(
        call,
        notingResponses(handler, (response) => this.#note(response as object)),
      );
    },
  };

  /** The header of the latest response. Undefined before the first response. */
  get lastHeader(): ResponseHeader | undefined {
    return this.#last;
  }

  /** Adds the events of a revision. Returns the whole group if they complete one. */
  push({
    revision,
    events,
  }: WatchBatch): { readonly header: ResponseHeader; readonly events: WatchEvent[] } | undefined {
    // A spread would throw a RangeError for the events of a revision that has deleted more than 100,000 keys.
    for (const event of events) this.#events.push(event);
    // After a reconnect, the server may repeat events that the watch has delivered already.
    while ((this.#ends[0]?.revision ?? revision) < revision) this.#ends.shift();
    if (this.#ends[0]?.revision !== revision) return undefined;
    const { header } = this.#ends.shift() as ResponseEnd;
    const whole = this.#events;
    this.#events = [];
    return { header, events: whole };
  }

  #note({ header, events = [] }: { header?: ResponseHeader; events?: { kv?: KeyValueMessage }[] }): void {
    const last = events.at(-1)?.kv?.modRevision;
    this.#last = header ?? this.#last;
    if (this.#last !== undefined && last !== undefined) this.#ends.push({ header: this.#last, revision: last });
  }
}

const CANCELED = 'watch is canceled by the server';

/**
 * Prints the events of a watch as etcdctl does, and runs the program for each. Resolves with the exit code. `isOnly` is
 * false for a watch of `watch -i`.
 */
export function watchAsEtcdctl(
  context: Context,
  watched: Watched,
  flags: KeyFlags,
  isOnly: boolean,
): Promise<ExitCode> {
  const responses = new WatchResponses();
  const run = async (client: Client): Promise<ExitCode> => {
    await followAsEtcdctl(context, client, responses, watched, flags);
    // A watch from a line of `watch -i` ends without an error.
    if (isOnly) throw new EtcdctlError(ETCDCTL_EXIT.INTERRUPTED, CANCELED);
    return ExitCode.OK;
  };
  return withClient(context, run, undefined, { interceptors: [responses.interceptor] });
}

/**
 * Prints the events until the watch ends.
 *
 * @throws EtcdctlError if a program fails; EtcdError if the user interrupts the watch.
 */
async function followAsEtcdctl(
  { io, out }: Context,
  client: Client,
  responses: WatchResponses,
  { range, program }: Watched,
  { rev = 0n, prevKv }: KeyFlags,
): Promise<void> {
  const printer = out.etcdctl as EtcdctlPrinter;
  const startRevision = rev === 0n ? undefined : rev;
  const watch = client.watch(keysOf(range), { startRevision, prevKv, signal: io.interrupted });
  try {
    for await (const batch of watch.batches()) {
      const group = responses.push(batch);
      if (group === undefined) continue;
      printer.watch(watchedEvents(group));
      if (program.length > 0) await runForEach(program, group);
    }
  } catch (error) {
    if (!(error instanceof EtcdError) || io.interrupted.aborted) throw error;
    io.stderr.write(`watch was canceled (${goErrorText(error)})\n`);
    const { compactRevision } = error;
    // The server cancels the watch with a response whose header has no revision.
    const header = responses.lastHeader && { ...responses.lastHeader, revision: 0n };
    if (printer.format !== 'simple')
      printer.watch({
        header,
        events: [],
        canceled: true,
        ...(compactRevision === undefined ? {} : { compactRevision }),
      });
  }
}

function watchedEvents({ header, events }: { header: ResponseHeader; events: readonly WatchEvent[] }): WatchedEvents {
  return {
    header,
    events: events.map((event) => ({
      type: event.type === 'put' ? 0 : 1,
      kv:
        event.type === 'put'
          ? wireOf(event.kv)
          : { ...KeyValueMessage.create(), key: event.keyBytes, modRevision: event.modRevision },
      prevKv: event.prevKv && wireOf(event.prevKv),
    })),
  };
}

async function runForEach(
  program: readonly string[],
  { header, events }: { readonly header: ResponseHeader; readonly events: readonly WatchEvent[] },
): Promise<void> {
  for (const event of events) {
    const code = await runProgram(program, 'ignore', {
      ETCD_WATCH_REVISION: String(header.revision),
      ETCD_WATCH_EVENT_TYPE: event.type === 'put' ? '"PUT"' : '"DELETE"',
      ETCD_WATCH_KEY: goQuoted(event.keyBytes),
      ETCD_WATCH_VALUE: goQuoted(event.type === 'put' ? event.kv.value : ''),
    });
    if (code === ExitCode.OK) continue;
    const list = program.map((word) => goQuoted(word)).join(' ');
    throw new EtcdctlError(ETCDCTL_EXIT.ERROR, `command [${list}] error (exit status ${code})`, { isBare: true });
  }
}
