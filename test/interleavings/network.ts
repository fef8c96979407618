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
import { type Event, SERVER, type World } from './world.js';

function nameOf({ path }: { readonly path: string }): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function connectionLost(): EtcdError {
  const problem = 'the connection was lost';
  return new EtcdError(problem, { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
}

/** A unary call whose answer the client has not received yet. */
interface OpenCall {
  readonly label: string;
  /** Whether the request is still on its way to the server. */
  isRequested: boolean;
  /** Loses the request, or the answer. */
  lose(): void;
  isRepeated: boolean;
  /** Sends the request again. The copy may arrive at any later time, or never. */
  repeat(): void;
  fail(error: EtcdError): void;
}

/** Returns the transport of a party. Its messages are events of the world, which may arrive in any order. */
export function network(world: World, server: MemoryEtcd, party: string): EmbeddedTransportFactory {
  const direct = memory(server);
  const factory = (...args: Parameters<typeof direct>): Transport => new Connection(world, direct(...args), party);
  return Object.assign(factory, { endpoints: direct.endpoints });
}

class Connection implements Transport {
  readonly #world: World;
  readonly #server: Transport;
  readonly #party: string;
  readonly #calls = new Set<OpenCall>();
  /** Functions that end the open streams. */
  readonly #streams = new Set<(error: EtcdError) => void>();

  constructor(world: World, server: Transport, party: string) {
    this.#world = world;
    this.#server = server;
    this.#party = party;
    world.addFaults(() => this.#faults());
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const { method, signal, deadline } = call;
    const name = nameOf(method);
    const label = this.#world.labelOf(`${this.#party}: ${name}`);
    return new Promise((resolve, reject) => {
      if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
      if (deadline <= monotonicMs()) throw timedOut('call', call.timeoutMs, 'not-sent', method.path);
      call.observer?.sent?.();
      const undos: (() => void)[] = [];
      const finish = (settle: () => void): void => {
        if (!this.#calls.delete(open)) return;
        for (const undo of undos) undo();
        settle();
      };
      const answer = (what: string, settle: () => void): void => {
        open.isRequested = false;
        if (!this.#calls.has(open)) return;
        open.lose = this.#send(`answer ${label}`, `${label}, ${what}`, this.#party, () => finish(settle));
        undos.push(open.lose);
      };
      const request = { ...call, signal: undefined, observer: undefined, deadline: Number.POSITIVE_INFINITY };
      const open: OpenCall = {
        label,
        isRequested: true,
        lose: this.#world.send(label, {
          label,
          at: SERVER,
          call: label,
          isOptional: () => !this.#calls.has(open) || this.#world.isKilled(this.#party),
          action: () => {
            this.#server.unary(request).then(
              (response) => answer('answer', () => resolve(response)),
              (error: unknown) => answer('refusal', () => reject(error)),
            );
          },
        }),
        isRepeated: false,
        repeat: () => {
          open.isRepeated = true;
          const action = (): void => void this.#server.unary(request).catch(() => {});
          const copy = this.#world.labelOf(`${label}, copy`);
          this.#world.send(copy, { label: copy, at: SERVER, isOptional: () => true, action });
        },
        fail: (error) => finish(() => reject(error)),
      };
      this.#calls.add(open);
      undos.push(at(deadline, () => open.fail(timedOut('call', call.timeoutMs, 'unknown', method.path))));
      undos.push(onAbort(signal, () => open.fail(canceled(signal as AbortSignal, 'unknown', method.path))));
    });
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const label = this.#world.labelOf(`${this.#party}: stream ${nameOf(call.method)}`);
    const toServer = (what: string, action: () => void): void =>
      void this.#send(`requests of ${label}`, this.#world.labelOf(`${label}, ${what}`), SERVER, action);
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
    const toClient = (what: string, action: () => void): void => {
      if (!this.#streams.has(end)) return;
      const channel = `responses of ${label}`;
      losses.push(this.#send(channel, this.#world.labelOf(`${label}, ${what}`), this.#party, action));
    };
    // The first message opens the stream.
    const opened = (): OutgoingStream<Request> => {
      stream ??= this.#server.stream(
        { ...call, observer: undefined },
        {
          message: (message) => toClient('message', () => handler.message(message)),
          end: (error) => toClient('end', () => end(error)),
        },
      );
      return stream;
    };
    return {
      send: (message) => toServer('request', () => opened().send(message)),
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
    for (const call of [...this.#calls]) call.fail(clientClosed());
    for (const end of [...this.#streams]) end(clientClosed());
  }

  #send(channel: string, label: string, at: string, action: () => void): () => void {
    return this.#world.send(channel, { label, at, action });
  }

  #faults(): readonly Event[] {
    if (this.#world.isFrozen(this.#party) || this.#world.isKilled(this.#party)) return [];
    const fault = (label: string, action: () => void, call?: string): Event => {
      return { label, at: this.#party, call, isFault: true, isOptional: true, action };
    };
    const ofCalls = [...this.#calls].flatMap((call) => {
      const { label, isRequested } = call;
      const lost = (): void => {
        call.lose();
        call.fail(connectionLost());
      };
      const refused = (refusedCall: OpenCall): void => {
        refusedCall.lose();
        refusedCall.fail(errorFromStatus('Unavailable', 'etcdserver: no leader'));
      };
      return [
        fault(`${label}, the ${isRequested ? 'request' : 'answer'} is lost`, lost, label),
        ...(isRequested ? [fault(`${label}, the member has no leader`, () => refused(call), label)] : []),
        ...(isRequested && !call.isRepeated
          ? [fault(`${label}, the request is sent twice`, () => call.repeat(), label)]
          : []),
      ];
    });
    const breaks = (): void => {
      for (const call of [...this.#calls]) call.fail(connectionLost());
      for (const end of [...this.#streams]) end(connectionLost());
    };
    const isOpen = this.#streams.size > 0 || this.#calls.size > 1;
    return isOpen ? [...ofCalls, fault(`${this.#party}: the connection breaks`, breaks)] : ofCalls;
  }
}
