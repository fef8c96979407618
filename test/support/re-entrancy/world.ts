import { Client, EtcdError, type Interceptor } from '../../../src/index.js';
import { type Held, Mutex, Session } from '../../../src/locks.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';
import { forwardStream, type OutgoingStream, type TransportFactory } from '../../../src/wire/transport.js';

// A program whose callbacks call methods of the client. Each callback of the program is a place. In one run, the program
// calls one action at one place, once: inside the callback, or right after it.

/** A wait that takes longer than this many milliseconds counts as a wait without an end. */
const STALLED_MS = 5_000;

export interface Choice {
  readonly place: string;
  readonly when: 'inside' | 'after';
  readonly action: (world: World) => unknown;
}

/** The client under test, the objects that its program has, and a second client that is never disturbed. */
export class World {
  readonly server = new MemoryEtcd();
  readonly other = new Client({ transport: memory(this.server) });
  readonly etcd: Client;
  readonly stop = new AbortController();
  session: Session | undefined;
  held: Held | undefined;
  items: AsyncIterator<unknown> | undefined;
  /** Watches that actions have opened. Each of them must deliver the next event. */
  readonly opened: AsyncIterator<unknown>[] = [];
  /** The open streams of the client: functions that end a stream as a broken connection does, with its method. */
  readonly #breaks = new Map<() => void, string>();
  readonly #choice: Choice | undefined;
  #hasActed = false;
  /** The places that the program has passed. */
  readonly places = new Set<string>();
  readonly log: string[] = [];
  isDone = false;

  constructor(choice: Choice | undefined) {
    this.#choice = choice;
    const info = (): void => this.at('logger');
    const transport = Object.assign(this.#breakable(), { endpoints: [this.server.endpoint] });
    this.etcd = new Client({ transport, interceptors: [this.#interceptor()], logger: { info, warn: info } });
    this.etcd.onEvent(({ type }) => this.at(`onEvent: ${type}`));
  }

  /** Runs the action if the program is at the chosen place for the first time. Ignores errors of the action. */
  at(place: string): void {
    this.places.add(place);
    const choice = this.#choice;
    if (this.isDone || this.#hasActed || choice?.place !== place) return;
    this.#hasActed = true;
    const act = async (): Promise<void> => {
      await choice.action(this);
    };
    if (choice.when === 'inside') act().catch(() => {});
    else queueMicrotask(() => void act().catch(() => {}));
  }

  /** Calls `at` when the signal aborts. */
  listen(name: string, signal: AbortSignal): void {
    signal.addEventListener('abort', () => this.at(`abort: ${name}`));
  }

  async open(name: string): Promise<void> {
    this.session = await Session.open(this.etcd, { ttl: 600 });
    this.listen('session.signal', this.session.signal);
    this.held = await new Mutex(this.session, name).lock();
    this.listen('held.signal', this.held.signal);
  }

  /** Records whether the promise resolves, and otherwise the reason of its error. */
  async step<T>(name: string, promise: Promise<T> | undefined): Promise<T | undefined> {
    const result = await ended(promise);
    this.log.push(`${name}: ${result.outcome}`);
    return result.value;
  }

  /** Ends the streams of the client as a broken connection does. */
  breakStreams(): void {
    for (const end of [...this.#breaks.keys()]) end();
  }

  /** Returns what is wrong after the program. */
  async problems(): Promise<string[]> {
    const problems: string[] = [];
    const probe = await ended(this.etcd.get('probe'));
    if (!['resolved', 'ClientClosed'].includes(probe.outcome)) problems.push(`a later call: ${probe.outcome}`);
    for (const [index, watch] of this.opened.entries()) {
      // The watch may not be created yet, so put until it has an event.
      const next = ended(watch.next());
      let outcome: string | undefined;
      void next.then((result) => {
        outcome = result.outcome;
      });
      while (outcome === undefined) {
        await this.other.put('opened', '');
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      if (!['resolved', 'ClientClosed', 'ClusterChanged'].includes(outcome))
        problems.push(`watch ${index}: ${outcome}`);
      await watch.return?.();
    }
    // All watches of a client share one stream, and so do its keepalives.
    const open = [...this.#breaks.values()];
    if (new Set(open).size < open.length) problems.push(`the client has lost a stream: ${open}`);
    const closed = await ended(this.etcd.close({ drainMs: 20 }));
    if (closed.outcome !== 'resolved') problems.push(`close: ${closed.outcome}`);
    if (this.#breaks.size > 0) problems.push('a closed client has an open stream');
    await this.other.close({ drainMs: 20 });
    return problems;
  }

  /** Returns the transport in this process, whose streams can be broken. */
  #breakable(): TransportFactory {
    const factory = memory(this.server);
    return (endpoint, options) => {
      const transport = factory(endpoint, options);
      return {
        unary: (call) => transport.unary(call),
        stream: (call, handler) => {
          let stream: OutgoingStream<never> | undefined;
          const end = (): void => {
            if (!this.#breaks.delete(end)) return;
            stream?.cancel();
            handler.end(new EtcdError('broken', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' }));
          };
          this.#breaks.set(end, call.method.path);
          stream = transport.stream(call, {
            ...handler,
            end: (error) => {
              if (this.#breaks.delete(end)) handler.end(error);
            },
          }) as OutgoingStream<never>;
          return forwardStream(stream, {
            cancel: (why) => {
              this.#breaks.delete(end);
              stream?.cancel(why);
            },
          }) as never;
        },
        close: () => transport.close(),
      };
    };
  }

  #interceptor(): Interceptor {
    return {
      unary: async (call, next) => {
        this.at(`unary: ${call.method.path}`);
        const response = await next(call);
        this.at(`unary answered: ${call.method.path}`);
        return response;
      },
      stream: (call, handler, next) => {
        const { path } = call.method;
        this.at(`stream: ${path}`);
        const stream = next(call, {
          ...handler,
          message: (message) => {
            this.at(`message: ${path}`);
            handler.message(message);
          },
          end: (error) => {
            this.at(`end: ${path}`);
            handler.end(error);
          },
        });
        return forwardStream(stream, {
          send: (message) => {
            this.at(`send: ${path}`);
            stream.send(message);
          },
          cancel: (why) => {
            this.at(`cancel: ${path}`);
            stream.cancel(why);
          },
        });
      },
    };
  }
}

async function ended<T>(
  promise: Promise<T> | undefined,
): Promise<{ readonly outcome: string; readonly value?: T | undefined }> {
  let stopTimer = (): void => {};
  const stalled = new Promise<'stalled'>((resolve) => {
    const timer = setTimeout(() => resolve('stalled'), STALLED_MS);
    stopTimer = () => clearTimeout(timer);
  });
  try {
    const value = await Promise.race([promise, stalled]);
    return value === 'stalled' ? { outcome: 'stalled' } : { outcome: 'resolved', value: value as T };
  } catch (error) {
    return { outcome: error instanceof EtcdError ? error.reason : String(error) };
  } finally {
    stopTimer();
  }
}
