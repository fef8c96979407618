import {
  at,
  canceled,
  clientClosed,
  EtcdError,
  errorFromStatus,
  monotonicMs,
  onAbort,
  timedOut,
} from '../../src/base/index.js';
import { type MemoryEtcd, memory } from '../../src/testing/index.js';
import type {
  EmbeddedTransportFactory,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  UnaryCall,
} from '../../src/wire/index.js';
import { type Carried, type Event, SERVER, type Unplanned, type World, wayOf } from './world.js';

function nameOf({ path }: { readonly path: string }): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function connectionLost(): EtcdError {
  const problem = 'the connection was lost';
  return new EtcdError(problem, { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
}

/** Whether the server refuses a message of a stream, and so ends the stream. */
type Refuses = (message: unknown) => boolean;

/** Returns the transport of a party. Its messages are events of the world, which may arrive in any order. */
export function network(world: World, server: MemoryEtcd, party: string, refuses: Refuses): EmbeddedTransportFactory {
  const direct = memory(server);
  const factory = (...args: Parameters<typeof direct>): Transport =>
    new Connection(world, direct(...args), party, refuses);
  return Object.assign(factory, { endpoints: direct.endpoints });
}

class Connection implements Transport {
  readonly #world: World;
  readonly #server: Transport;
  readonly #party: string;
  readonly #refuses: Refuses;
  /** Functions that end the unary calls whose answers the client has not received yet. */
  readonly #calls = new Set<(error: EtcdError) => void>();
  /** Functions that end the open streams. */
  readonly #streams = new Set<(error: EtcdError) => void>();

  constructor(world: World, server: Transport, party: string, refuses: Refuses) {
    this.#world = world;
    this.#server = server;
    this.#party = party;
    this.#refuses = refuses;
    world.addSource(() => this.#breaks());
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const { method, signal, deadline } = call;
    const label = this.#world.labelOf(`${this.#party}: ${nameOf(method)}`);
    const isPlanned = (what: string): boolean => this.#world.offer(`${label}, ${what}`);
    return new Promise((resolve, reject) => {
      if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
      if (deadline <= monotonicMs()) throw timedOut('call', call.timeoutMs, 'not-sent', method.path);
      call.observer?.sent?.();
      const carried: Carried = { method, request: call.request };
      const undos: (() => void)[] = [];
      const finish = (settle: () => void): void => {
        if (!this.#calls.delete(fail)) return;
        this.#world.touch(wayOf(label), 'write');
        for (const undo of undos) undo();
        settle();
      };
      const toClient = (what: string, settle: () => void, answer?: unknown): void => {
        if (!this.#calls.has(fail)) return this.#world.discard(this.#party);
        const carries = answer === undefined ? undefined : { ...carried, answer };
        const message = { label: `${label}, ${what}`, at: this.#party, carries, action: () => finish(settle) };
        undos.push(this.#world.send(`answer ${label}`, message));
      };
      const loses = (): void => reject(connectionLost());
      const answer = (what: string, settle: () => void, response?: unknown): void => {
        if (isPlanned('the answer is lost')) toClient('the answer is lost', loses);
        else toClient(what, settle, response);
      };
      const request = { ...call, signal: undefined, observer: undefined, deadline: Number.POSITIVE_INFINITY };
      const fail = (error: EtcdError): void => finish(() => reject(error));
      this.#calls.add(fail);
      undos.push(at(deadline, () => fail(timedOut('call', call.timeoutMs, 'unknown', method.path))));
      undos.push(onAbort(signal, () => fail(canceled(signal as AbortSignal, 'unknown', method.path))));
      if (isPlanned('the request is lost')) return toClient('the request is lost', loses);
      if (isPlanned('the member has no leader'))
        return toClient('the member has no leader', () =>
          reject(errorFromStatus('Unavailable', 'etcdserver: no leader')),
        );
      const arrive = (): void => {
        this.#server.unary(request).then(
          (response) => answer('answer', () => resolve(response), response),
          (error: unknown) => answer('refusal', () => reject(error)),
        );
      };
      const isLate = (): boolean => !this.#calls.has(fail) || this.#world.isKilled(this.#party);
      this.#world.send(label, { label, at: SERVER, from: this.#party, isLate, carries: carried, action: arrive });
      // The copy may arrive at any time, also before the original.
      const twice = 'the request is sent twice';
      const copy = `${label}, ${twice}`;
      const arriveAgain = (): void => void this.#server.unary(request).catch(() => {});
      if (isPlanned(twice))
        this.#world.send(copy, { label: copy, at: SERVER, isLate: () => true, carries: carried, action: arriveAgain });
    });
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const label = this.#world.labelOf(`${this.#party}: stream ${nameOf(call.method)}`);
    const isLate = (): boolean => this.#world.isKilled(this.#party);
    const toServer = (what: string, action: () => void, request?: unknown): void => {
      const message = {
        label: this.#world.labelOf(`${label}, ${what}`),
        at: SERVER,
        from: this.#party,
        isLate,
        carries: request === undefined ? undefined : { method: call.method, request },
        action,
      };
      this.#world.send(`requests of ${label}`, message);
    };
    let stream: OutgoingStream<Request> | undefined;
    /** Functions that lose the responses on their way. */
    const losses: (() => void)[] = [];
    const forget = (): boolean => {
      for (const lose of losses) lose();
      return this.#streams.delete(end);
    };
    const end = (error: EtcdError | undefined): void => {
      if (forget()) handler.end(error);
    };
    this.#streams.add(end);
    const toClient = (what: string, action: () => void, answer?: unknown): void => {
      if (!this.#streams.has(end)) return this.#world.discard(this.#party);
      const message = {
        label: this.#world.labelOf(`${label}, ${what}`),
        at: this.#party,
        carries: answer === undefined ? undefined : { method: call.method, request: {}, answer },
        action,
      };
      losses.push(this.#world.send(`responses of ${label}`, message));
    };
    // The first message opens the stream.
    const opened = (): OutgoingStream<Request> => {
      stream ??= this.#server.stream(
        { ...call, observer: undefined },
        {
          message: (message) => toClient('message', () => handler.message(message), message),
          end: (error) => toClient('end', () => end(error)),
        },
      );
      return stream;
    };
    return {
      send: (message) => {
        const refuse = (): void =>
          toClient('refusal', () => end(errorFromStatus('PermissionDenied', 'etcdserver: permission denied')));
        toServer('request', () => (this.#refuses(message) ? refuse() : opened().send(message)), message);
      },
      end: () => toServer('half-close', () => stream?.end()),
      cancel: () => {
        forget();
        toServer('cancel', () => stream?.cancel());
      },
      pause: () => {},
      resume: () => {},
    };
  }

  async close(): Promise<void> {
    this.#endAll(clientClosed);
  }

  #breaks(): readonly (Event & Unplanned)[] {
    // If only one call is open, the loss of its request or answer is the same fault. The server notices no break.
    const isOpen = this.#streams.size > 0 || this.#calls.size > 1;
    if (!isOpen || this.#world.isFrozen(this.#party) || this.#world.isKilled(this.#party)) return [];
    const action = (): void => this.#endAll(connectionLost);
    return [{ label: `${this.#party}: the connection breaks`, at: this.#party, isFault: true, action }];
  }

  #endAll(reason: () => EtcdError): void {
    for (const end of [...this.#calls, ...this.#streams]) end(reason());
  }
}
