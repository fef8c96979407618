import { amended, canceled, clientClosed, EtcdError, timedOut } from '../../../src/errors/etcd-error.js';
import { errorFromStatus } from '../../../src/errors/status-error.js';
import { methods } from '../../../src/gen/methods.js';
import type { Endpoint } from '../../../src/host/endpoint.js';
import { decode, encode, type Init } from '../../../src/protobuf/codec.js';
import type { Method } from '../../../src/protobuf/schema.js';
import { onAbort } from '../../../src/runtime/signals.js';
import { after, at, monotonicMs } from '../../../src/runtime/timers.js';
import { CancelableCall, type RequestSink, StatusError, serverError } from '../../../src/testing/memory/service.js';
import { connectFailed } from '../../../src/transport/connect-failed.js';
import { checkMetadata, decodeResponse, encodeRequest } from '../../../src/transport/messages.js';
import type {
  Metadata,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  TransportFactory,
  TransportOptions,
  UnaryCall,
} from '../../../src/transport/transport.js';
import { Calls } from './calls.js';
import type { SimulatedCluster, SimulatedMember } from './cluster.js';
import { type Direction, Silence } from './silence.js';
import type { Process, World } from './world.js';

/** The longest delay of a message on a fast network, in milliseconds. */
const SHORT_DELAY_MS = 2;
/** The longest delay of a message, in milliseconds. */
const MAX_DELAY_MS = 3_000;

/** How long messages take. A history uses one of these. */
export const DELAYS = {
  /** Every message arrives at once, so only the order of events is random. */
  none: () => 0,
  /** Messages take up to 2 ms. */
  short: (random) => random.fraction() * SHORT_DELAY_MS,
  /** Messages take up to 200 ms. */
  long: (random) => random.fraction() * 200,
  /** Most messages take up to 2 ms, some take up to 3 s. */
  uneven: (random) => (random.chance(0.9) ? random.fraction() * SHORT_DELAY_MS : random.magnitude(10, MAX_DELAY_MS)),
} as const satisfies Record<string, (random: World['random']) => number>;

export type DelayName = keyof typeof DELAYS;

/** What happens to one unary call. */
export type CallFault =
  /** The request, or the response, takes this much longer. */
  | { readonly type: 'delay request' | 'delay response'; readonly ms: number }
  /** The connection breaks before the request arrives. The request arrives after `ms`, or never. */
  | { readonly type: 'lose request'; readonly ms: number | undefined }
  /** The server applies the request. The connection breaks before the response arrives. */
  | { readonly type: 'lose response' }
  /** A copy of the request arrives `ms` before the request. The answer to the copy goes nowhere. */
  | { readonly type: 'early copy'; readonly ms: number }
  /** The request arrives a second time `ms` after the server has applied it. The second answer goes nowhere. */
  | { readonly type: 'duplicate request'; readonly ms: number }
  /**
   * The server answers with an error. If `isApplied`, it has applied the request. `resetsStream`: over byte streams, the
   * answer is RST_STREAM with REFUSED_STREAM, as that of a proxy that has passed the request on.
   */
  | {
      readonly type: 'refuse';
      readonly reason: Refusal;
      readonly isApplied: boolean;
      readonly resetsStream: boolean;
      /** A copy of a request that was not applied arrives after this time, and is applied. */
      readonly copyMs?: number | undefined;
    };

export const REFUSALS = [
  'NoLeader',
  'LeaderChanged',
  'Timeout',
  'TimeoutDueToLeaderFail',
  'ProposalDropped',
  'RequestTooManyRequests',
] as const;
/** The refusals after which the server may have applied the request. */
export const UNCERTAIN_REFUSALS = ['LeaderChanged', 'Timeout', 'TimeoutDueToLeaderFail'] as const;
type Refusal = (typeof REFUSALS)[number];

/** How long a client takes to notice that a connection is silent, in milliseconds: from a probe to its time limit. */
const SILENCE_NOTICED_MS = [2_500, 8_600] as const;

/** The network between one process and one member. */
export class Path {
  readonly silence = new Silence();
  /** The member refuses connections until this time. */
  refusedUntil = 0;
}

/** The messages of a connection that are on their way for long. They arrive soon when all faults end. */
export class SlowMessages {
  readonly #network: Network;
  /** The functions that let the messages arrive earlier. */
  readonly #slow = new Set<() => void>();

  constructor(network: Network) {
    this.#network = network;
  }

  /** Schedules the arrival of a message. */
  deliver(due: number, owner: Process, kind: string, detail: string, arrive: () => void): void {
    const { world } = this.#network;
    // A process that was stopped in the middle of an event sends later than `now`.
    const sentAt = world.time;
    if (due - sentAt <= SHORT_DELAY_MS) return void world.at(due, owner, kind, detail, arrive);
    const hasten = (): void => {
      cancel();
      this.#slow.delete(hasten);
      const soon = Math.max(world.now, sentAt) + this.#network.delayMs();
      world.at(Math.min(due, soon), owner, kind, detail, arrive);
    };
    const cancel = world.at(due, owner, kind, detail, () => {
      this.#slow.delete(hasten);
      arrive();
    });
    this.#slow.add(hasten);
  }

  /** Lets all messages arrive soon. */
  hasten(): void {
    for (const hasten of [...this.#slow]) hasten();
  }
}

/** A connection of a client to a member, as the faults see it. */
export interface Link {
  readonly process: Process;
  readonly member: SimulatedMember;
  readonly silence: Silence;
  /** Whether the client uses the connection no more. */
  isLost: boolean;
  /** The server announces that it closes the connection. Runs in the process of the client. */
  onLeaving(): void;
  /** Makes the client notice, after some time, that the connection is silent. */
  watchSilence(): void;
  /**
   * Cuts the connection. `deliversLate`: requests that are on their way still arrive. The client notices the cut after
   * `noticeMs`, 0 by default, and the server after `serverNoticeMs`, soon by default.
   */
  cut(deliversLate?: boolean, noticeMs?: number, serverNoticeMs?: number): void;
  /**
   * Nothing arrives any longer. The client does not learn of it before `ms`, as if a firewall dropped the packets that
   * tell it. The server closes its end after `serverNoticeMs`, soon by default.
   */
  vanish(ms: number, serverNoticeMs?: number): void;
  /** Ends all faults. */
  heal(): void;
}

/** The simulated network. It decides when each message arrives, and whether it does. */
export class Network {
  readonly world: World;
  readonly cluster: SimulatedCluster;
  /** The open connections. */
  readonly connections = new Set<Link>();
  /** Each request takes up to this much longer, because the cluster has too much to do. */
  slowMs = 0;
  /** Called when a process authenticates a second time before the first answer. */
  onAuthenticatedTwice: (process: Process) => void = () => {};
  /** The number of unanswered calls with which each process authenticates. */
  readonly authenticating = new Map<Process, number>();
  /** Called when a member refuses a connection of a process. */
  onRefused: (process: Process, member: SimulatedMember) => void = () => {};
  /** When the last copy of a request arrives, as far as it is known. */
  lastCopyMs = 0;
  /** Called when a copy of a request, or a late request, arrives. */
  onCopy: () => void = () => {};
  /** Returns what happens to the next unary call of this process. */
  faultOf: (process: Process, method: Method<unknown, unknown>) => CallFault | undefined = () => undefined;
  #delay: (typeof DELAYS)[DelayName] = DELAYS.none;
  /** The packets that tell clients of the end of a connection. */
  readonly #ends = new SlowMessages(this);
  readonly #paths = new Map<string, Path>();

  constructor(world: World, cluster: SimulatedCluster) {
    this.world = world;
    this.cluster = cluster;
  }

  /** Lets a copy of a request, or a late request, arrive after `ms`, also if all clients are closed by then. */
  arriveLate(ms: number, kind: string, detail: string, arrive: () => void): void {
    const { world } = this;
    const due = world.time + ms;
    this.lastCopyMs = Math.max(this.lastCopyMs, due);
    world.at(due, world.outside, kind, detail, () => {
      this.onCopy();
      arrive();
    });
  }

  set delays(name: DelayName) {
    this.#delay = DELAYS[name];
  }

  delayMs(): number {
    return this.#delay(this.world.random);
  }

  /**
   * Makes a client notice the end of a connection after `ms`. If the packet that tells it is only delayed, it arrives
   * soon when all faults end.
   */
  notice(process: Process, ms: number, action: () => void): void {
    const due = this.world.time + ms;
    const kind = 'notices the end of a connection';
    if (ms <= MAX_DELAY_MS) this.#ends.deliver(due, process, kind, '', action);
    else this.world.at(due, process, kind, '', action);
  }

  path(process: Process, member: SimulatedMember): Path {
    const id = `${process.name} ${member.url}`;
    const path = this.#paths.get(id) ?? new Path();
    this.#paths.set(id, path);
    return path;
  }

  /** Returns the transports of a client in this process. */
  transportOf(process: Process): TransportFactory {
    return (endpoint, options) => {
      const member = this.cluster.members.find(({ url }) => url === endpoint.url);
      if (member === undefined) throw new Error(`no member has the URL ${endpoint.url}`);
      return new SimulatedTransport(this, process, member, endpoint, options);
    };
  }

  /** Ends all faults. */
  heal(): void {
    this.faultOf = () => undefined;
    const { now } = this.world;
    for (const path of this.#paths.values()) {
      path.silence.end(now);
      path.refusedUntil = Math.min(path.refusedUntil, now);
    }
    for (const connection of this.connections) connection.heal();
    this.#ends.hasten();
  }
}

/** A connection of a client to a member. */
class Connection implements Link {
  readonly network: Network;
  readonly process: Process;
  readonly member: SimulatedMember;
  readonly path: Path;
  readonly silence: Silence;
  /** Whether the two ends are connected no more. */
  isCut = false;
  /** Whether the client uses the connection no more. */
  isLost = false;
  isOpen = false;
  isSuspect = false;
  /** Whether requests that are on their way when the connection is cut still arrive. */
  deliversLate = false;
  /** The calls at the client. */
  readonly calls = new Set<ClientCall>();
  /** The functions that cancel the calls at the server. */
  readonly served = new Set<() => void>();
  /** Called when the server announces that it closes the connection. */
  onLeaving: () => void = () => {};
  readonly #onLost: () => void;
  readonly #slow: SlowMessages;
  #watchingSilence = false;

  constructor(network: Network, process: Process, member: SimulatedMember, onLost: () => void) {
    this.network = network;
    this.process = process;
    this.member = member;
    this.path = network.path(process, member);
    this.silence = new Silence(this.path.silence);
    this.#onLost = onLost;
    this.#slow = new SlowMessages(network);
    network.connections.add(this);
  }

  get isSilent(): boolean {
    return this.silence.isActive(this.network.world.now);
  }

  heal(): void {
    this.silence.end(this.network.world.now);
    this.#slow.hasten();
  }

  /** Schedules the arrival of a message. A silent connection delays it. */
  carry(direction: Direction, kind: string, detail: string, arrive: () => void, extraMs = 0): void {
    const { network } = this;
    const { world } = network;
    const owner = direction === 'to-server' ? world.outside : this.process;
    const deliver = (): void => {
      const until = this.silence.until(direction);
      if (until > world.now) return this.#slow.deliver(until + network.delayMs(), owner, kind, detail, deliver);
      if (this.isCut && (direction === 'to-client' || !this.deliversLate)) return;
      arrive();
    };
    const slowMs = direction === 'to-server' && network.slowMs > 0 ? world.random.fraction() * network.slowMs : 0;
    this.#slow.deliver(world.time + network.delayMs() + slowMs + extraMs, owner, kind, detail, deliver);
  }

  cut(deliversLate = false, noticeMs = 0, serverNoticeMs = this.network.delayMs()): void {
    if (this.isCut) return;
    this.isCut = true;
    this.deliversLate = deliversLate;
    const { world } = this.network;
    this.network.connections.delete(this);
    this.network.notice(this.process, noticeMs, () => this.lose());
    const closed = (): void => {
      for (const cancel of [...this.served]) cancel();
    };
    world.at(world.time + serverNoticeMs, world.outside, 'notices the end of a connection', '', closed);
  }

  vanish(ms: number, serverNoticeMs?: number): void {
    this.cut(false, Math.min(ms, this.network.world.random.between(...SILENCE_NOTICED_MS)), serverNoticeMs);
  }

  /** Ends the connection at the client. */
  lose(problem = 'the connection was closed by the peer'): void {
    if (this.isLost) return;
    this.isLost = true;
    this.#onLost();
    this.cut(this.network.world.random.chance(0.5));
    for (const call of [...this.calls]) call.lost(problem);
    this.calls.clear();
  }

  /** Makes the client notice, after some time, that the connection is silent. */
  watchSilence(): void {
    if (this.#watchingSilence || this.isLost || !this.isSilent) return;
    this.#watchingSilence = true;
    const { world } = this.network;
    const ms = world.random.between(...SILENCE_NOTICED_MS);
    world.at(world.time + Math.min(ms, 1_000), this.process, 'suspects a silent connection', '', () => {
      if (this.isSilent && this.calls.size > 0) this.isSuspect = true;
    });
    world.at(world.time + ms, this.process, 'gives up a silent connection', '', () => {
      this.#watchingSilence = false;
      this.isSuspect = false;
      if (this.isSilent && this.calls.size > 0) this.lose('the peer did not answer a PING');
    });
  }
}

/** A call at the client. */
interface ClientCall {
  /** The connection is open, so the call can be sent. */
  send(connection: Connection): void;
  /** The connection is lost. */
  lost(problem: string): void;
  /** The connection could not be opened, or the client is closed. */
  fail(error: EtcdError): void;
  /** The server closes the connection soon. */
  leaving(): void;
}

class SimulatedTransport implements Transport {
  readonly network: Network;
  readonly process: Process;
  readonly member: SimulatedMember;
  readonly endpoint: Endpoint;
  readonly options: TransportOptions;
  readonly #calls = new Set<ClientCall>();
  #connection: Connection | undefined;
  #closed = false;

  constructor(
    network: Network,
    process: Process,
    member: SimulatedMember,
    endpoint: Endpoint,
    options: TransportOptions,
  ) {
    this.network = network;
    this.process = process;
    this.member = member;
    this.endpoint = endpoint;
    this.options = options;
  }

  get suspect(): boolean {
    return this.#connection?.isSuspect ?? false;
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    return new Promise((resolve, reject) => {
      const { method, signal, metadata, deadline } = call;
      const bytes = encodeRequest(method, call.request, this.options.maxRequestBytes);
      if (this.#closed) throw clientClosed('not-sent', method.path);
      if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
      checkMetadata(metadata, method.path);
      if (deadline <= monotonicMs()) throw timedOut('call', call.timeoutMs, 'not-sent', method.path);
      const unary = new SimulatedUnary(this, call, bytes, resolve, reject);
      this.begin(unary);
    });
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const stream = new SimulatedStream(this, call, handler);
    const start = (metadata: Metadata): void => {
      checkMetadata(metadata, call.method.path);
      stream.metadata = metadata;
      this.begin(stream);
    };
    if (this.#closed) queueMicrotask(() => stream.fail(clientClosed('not-sent', call.method.path)));
    else if (call.metadata instanceof Promise)
      call.metadata.then(start).catch((error: EtcdError) => stream.fail(error));
    else start(call.metadata ?? {});
    return stream.outgoing;
  }

  /** Sends a call, as soon as a connection is open. */
  begin(call: ClientCall): void {
    if (this.#closed) return call.fail(clientClosed('not-sent'));
    this.#calls.add(call);
    const connection = this.#connection ?? this.#connect();
    connection.calls.add(call);
    connection.watchSilence();
    if (connection.isOpen) call.send(connection);
  }

  ended(call: ClientCall, connection: Connection | undefined): void {
    this.#calls.delete(call);
    connection?.calls.delete(call);
    this.#connection?.calls.delete(call);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const call of [...this.#calls]) call.fail(clientClosed());
    const connection = this.#connection;
    this.#connection = undefined;
    if (connection === undefined) return;
    connection.isLost = true;
    connection.cut(true);
  }

  /** The server announces that it closes the connection. */
  leave(connection: Connection): void {
    if (this.#connection === connection) this.#connection = undefined;
    for (const call of [...connection.calls]) call.leaving();
  }

  #connect(): Connection {
    const { network, process, member } = this;
    const { world } = network;
    const connection: Connection = new Connection(network, process, member, () => {
      if (this.#connection === connection) this.#connection = undefined;
    });
    connection.onLeaving = () => this.leave(connection);
    this.#connection = connection;
    const failed = (reason: string): void => {
      if (connection.isOpen || connection.isLost) return;
      connection.isLost = true;
      connection.isCut = true;
      network.connections.delete(connection);
      if (this.#connection === connection) this.#connection = undefined;
      const error = connectFailed(this.endpoint, reason);
      for (const call of [...connection.calls]) call.fail(error);
    };
    const stopTimer = after(this.options.connectTimeoutMs, () => failed('the server sent nothing'), 'background');
    const arrive = (): void => {
      const isRefused = member.isDown || connection.path.refusedUntil > world.now;
      connection.carry('to-client', isRefused ? 'is refused by' : 'is connected to', member.url, () => {
        stopTimer();
        if (connection.isLost) return;
        if (isRefused) network.onRefused(process, member);
        if (isRefused) return failed('connect ECONNREFUSED');
        connection.isOpen = true;
        for (const call of [...connection.calls]) call.send(connection);
      });
    };
    connection.carry('to-server', 'accepts a connection of', process.name, arrive);
    return connection;
  }
}

class SimulatedUnary<Request, Response> implements ClientCall {
  readonly #transport: SimulatedTransport;
  readonly #call: UnaryCall<Request, Response>;
  readonly #bytes: Uint8Array;
  readonly #resolve: (response: Response) => void;
  readonly #reject: (error: unknown) => void;
  readonly #undos: (() => void)[] = [];
  #connection: Connection | undefined;
  #isOver = false;
  #isSent = false;

  constructor(
    transport: SimulatedTransport,
    call: UnaryCall<Request, Response>,
    bytes: Uint8Array,
    resolve: (response: Response) => void,
    reject: (error: unknown) => void,
  ) {
    this.#transport = transport;
    this.#call = call;
    this.#bytes = bytes;
    this.#resolve = resolve;
    this.#reject = reject;
    const { signal, deadline, timeoutMs, method } = call;
    if (method.path === methods.auth.authenticate.path) this.#countAuthentication();
    this.#undos.push(at(deadline, () => this.fail(timedOut('call', timeoutMs, this.#outcome, method.path))));
    if (signal !== undefined)
      this.#undos.push(onAbort(signal, () => this.fail(canceled(signal, this.#outcome, method.path))));
  }

  /** A client authenticates once for all its calls. */
  #countAuthentication(): void {
    const { network, process } = this.#transport;
    const count = (change: 1 | -1): number => {
      const total = (network.authenticating.get(process) ?? 0) + change;
      network.authenticating.set(process, total);
      return total;
    };
    if (count(1) > 1) network.onAuthenticatedTwice(process);
    this.#undos.push(() => void count(-1));
  }

  get #outcome(): 'not-sent' | 'unknown' {
    return this.#isSent ? 'unknown' : 'not-sent';
  }

  send(connection: Connection): void {
    if (this.#isOver || this.#isSent) return;
    this.#isSent = true;
    this.#connection = connection;
    this.#call.observer?.sent?.();
    const { network, process } = this.#transport;
    const { method } = this.#call;
    const fault = network.faultOf(process, method);
    const detail = `${method.path} of ${process.name}`;
    switch (fault?.type) {
      case 'delay request':
        return connection.carry('to-server', 'receives', detail, () => this.#arrive(connection, undefined), fault.ms);
      case 'early copy': {
        connection.carry('to-server', 'receives a copy of', detail, () => this.#arrive(connection, 'copy'));
        return connection.carry('to-server', 'receives', detail, () => this.#arrive(connection, undefined), fault.ms);
      }
      case 'lose request': {
        const { ms } = fault;
        if (ms !== undefined) network.arriveLate(ms, 'receives late', detail, () => this.#arrive(connection, 'late'));
        return connection.cut(false, network.delayMs());
      }
      default:
        return connection.carry('to-server', 'receives', detail, () => this.#arrive(connection, fault));
    }
  }

  lost(problem: string): void {
    const { endpoint } = this.#transport;
    this.fail(
      new EtcdError(problem, {
        code: 'Unavailable',
        reason: 'ConnectionLost',
        outcome: this.#outcome,
        method: this.#call.method.path,
        endpoint: endpoint.url,
      }),
    );
  }

  fail(error: EtcdError): void {
    if (this.#isOver) return;
    this.#finish();
    this.#reject(amended(error, { method: this.#call.method.path, outcome: this.#outcomeOf(error) }));
  }

  leaving(): void {}

  /** An error of the whole connection says nothing about a call that was not sent. */
  #outcomeOf({ outcome }: EtcdError): EtcdError['outcome'] {
    return outcome === 'unknown' && !this.#isSent ? 'not-sent' : outcome;
  }

  #finish(): void {
    this.#isOver = true;
    for (const undo of this.#undos.splice(0)) undo();
    this.#transport.ended(this, this.#connection);
  }

  /** The request, or a copy whose response no caller awaits, arrives at the server. */
  #arrive(connection: Connection, fault: CallFault | 'copy' | 'late' | undefined): void {
    const { member, network } = this.#transport;
    if (member.isDown) return;
    const { method, metadata = {} } = this.#call;
    if (typeof fault === 'object' && fault.type === 'refuse' && !fault.isApplied) {
      network.cluster.calls?.received(metadata);
      if (fault.copyMs !== undefined) this.#copyAfter(connection, fault.copyMs);
      return this.#answer(connection, this.#refusal(fault.reason), fault);
    }
    const served = new CancelableCall(fault === 'copy' ? Calls.copyOf(metadata) : metadata, member.url);
    const cancel = (): void => {
      connection.served.delete(cancel);
      served.cancel();
    };
    connection.served.add(cancel);
    const answer = (result: Uint8Array | StatusError): void => {
      connection.served.delete(cancel);
      if (fault === 'copy' || fault === 'late') return;
      // A copy of a refused request could be applied although its caller knows that the request was refused. No client
      // can prevent that, so only the fault `copy of a refused request` makes such copies.
      if (fault?.type === 'duplicate request' && !(result instanceof StatusError))
        this.#copyAfter(connection, fault.ms);
      this.#answer(connection, fault?.type === 'refuse' ? this.#refusal(fault.reason) : result, fault);
    };
    const failed = (error: unknown): void => {
      if (!(error instanceof StatusError)) network.world.unhandled.push(error);
      answer(error instanceof StatusError ? error : new StatusError('Internal', String(error)));
    };
    try {
      const result = network.cluster.unary(member, method, this.#bytes, served);
      if (result instanceof Promise) result.then(answer, failed);
      else answer(result);
    } catch (error) {
      failed(error);
    }
  }

  /** Lets a copy of the request arrive. */
  #copyAfter(connection: Connection, ms: number): void {
    const { network } = this.#transport;
    const { path } = this.#call.method;
    network.arriveLate(ms, 'receives a copy of', path, () => this.#arrive(connection, 'copy'));
  }

  #refusal(reason: Refusal): StatusError {
    const error = serverError(reason);
    this.#transport.network.cluster.calls?.refused(this.#call.metadata ?? {}, error);
    return error;
  }

  #answer(connection: Connection, result: Uint8Array | StatusError, fault: CallFault | undefined): void {
    const { network, endpoint } = this.#transport;
    if (fault?.type === 'lose response') return connection.cut(false, network.delayMs());
    const { method } = this.#call;
    const extraMs = fault?.type === 'delay response' ? fault.ms : 0;
    const isError = result instanceof StatusError;
    const arrive = (): void => {
      if (this.#isOver || connection.isLost) return;
      this.#finish();
      if (isError) {
        const context = { method: method.path, endpoint: endpoint.url };
        this.#reject(errorFromStatus(result.code, result.message, context));
      } else this.#resolve(decodeResponse(method, endpoint.url, result));
    };
    connection.carry('to-client', 'receives', isError ? result.message : `${method.path}`, arrive, extraMs);
  }
}

class SimulatedStream<Request, Response> implements ClientCall {
  metadata: Metadata = {};
  readonly #transport: SimulatedTransport;
  readonly #method: Method<Request, Response>;
  readonly #handler: StreamHandler<Response>;
  /** Requests that have not arrived yet. The last one is undefined if the client has half-closed the stream. */
  readonly #requests: (Uint8Array | undefined)[] = [];
  /** Responses that have not arrived yet. */
  readonly #responses: ({ readonly bytes: Uint8Array } | { readonly end: StatusError | undefined })[] = [];
  /** Responses that wait until the client resumes the stream. */
  #arrived = 0;
  #connection: Connection | undefined;
  #sink: RequestSink<Request> | undefined;
  #isServerOver = false;
  #isPaused = false;
  #isOver = false;
  #isHalfClosed = false;

  constructor(
    transport: SimulatedTransport,
    { method }: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ) {
    this.#transport = transport;
    this.#method = method;
    this.#handler = handler;
  }

  get outgoing(): OutgoingStream<Request> {
    const { network, process } = this.#transport;
    return {
      send: (message) => this.#send(encodeRequest(this.#method, message, this.#transport.options.maxRequestBytes)),
      end: () => this.#send(undefined),
      cancel: (why) => this.#cancel(why),
      pause: () => {
        this.#isPaused = true;
      },
      resume: () => {
        if (!this.#isPaused) return;
        this.#isPaused = false;
        network.world.soon(process, 'reads on', () => this.#deliver());
      },
    };
  }

  send(connection: Connection): void {
    if (this.#isOver || this.#connection !== undefined) return;
    this.#connection = connection;
    const { network, process, member } = this.#transport;
    const { world } = network;
    const open = (): void => {
      if (member.isDown) return;
      const served = new CancelableCall(this.metadata, member.url);
      const cancel = (): void => {
        connection.served.delete(cancel);
        if (this.#isServerOver) return;
        this.#isServerOver = true;
        served.cancel();
        this.#sink?.canceled();
      };
      connection.served.add(cancel);
      const respond = (response: { readonly bytes: Uint8Array } | { readonly end: StatusError | undefined }): void => {
        if (this.#isServerOver) return;
        if ('end' in response) {
          this.#isServerOver = true;
          connection.served.delete(cancel);
        }
        this.#responses.push(response);
        const detail = 'end' in response ? (response.end?.message ?? 'end') : `message of ${this.#method.path}`;
        connection.carry('to-client', 'receives', detail, () => {
          this.#arrived += 1;
          this.#deliver();
        });
      };
      try {
        this.#sink = network.cluster.stream(
          member,
          this.#method,
          {
            send: (message) => respond({ bytes: encode(this.#method.response, message as Init<Response>) }),
            end: (end) => respond({ end }),
          },
          served,
        );
      } catch (error) {
        if (!(error instanceof StatusError)) world.unhandled.push(error);
        respond({ end: error instanceof StatusError ? error : new StatusError('Internal', String(error)) });
      }
    };
    connection.carry('to-server', 'receives', `stream ${this.#method.path} of ${process.name}`, () => {
      if (this.#isServerOver) return;
      open();
      this.#isOpenAtServer = true;
      for (; this.#early > 0; this.#early -= 1) this.#receive();
    });
    for (const _ of this.#requests) this.#carryRequest(connection);
  }

  lost(problem: string): void {
    if (this.#isOver) return;
    const { endpoint } = this.#transport;
    this.fail(
      new EtcdError(problem, {
        code: 'Unavailable',
        reason: 'ConnectionLost',
        outcome: this.#connection === undefined ? 'not-sent' : 'unknown',
        endpoint: endpoint.url,
      }),
    );
  }

  fail(error: EtcdError): void {
    if (this.#isOver) return;
    this.#finish();
    this.#handler.end(amended(error, { method: this.#method.path }));
  }

  leaving(): void {
    if (!this.#isOver) this.#handler.leaving?.();
  }

  #isOpenAtServer = false;
  /** Requests that have arrived before the stream is open at the server. */
  #early = 0;

  #send(request: Uint8Array | undefined): void {
    if (this.#isOver || this.#isHalfClosed) return;
    this.#isHalfClosed = request === undefined;
    this.#requests.push(request);
    if (this.#connection !== undefined) this.#carryRequest(this.#connection);
  }

  #carryRequest(connection: Connection): void {
    connection.carry(
      'to-server',
      'receives',
      `message of ${this.#method.path} of ${this.#transport.process.name}`,
      () => {
        if (this.#isOpenAtServer) this.#receive();
        else this.#early += 1;
      },
    );
  }

  /** The server receives the next request. */
  #receive(): void {
    const request = this.#requests.shift();
    if (this.#isServerOver || this.#sink === undefined) return;
    if (request === undefined) this.#sink.halfClosed();
    else this.#sink.message(decode(this.#method.request, request));
  }

  /** The client receives the responses that have arrived. */
  #deliver(): void {
    const connection = this.#connection as Connection;
    while (this.#arrived > 0 && !this.#isPaused && !this.#isOver && !connection.isLost) {
      this.#arrived -= 1;
      const response = this.#responses.shift();
      if (response === undefined) return;
      if ('bytes' in response) {
        this.#handler.message(decodeResponse(this.#method, this.#transport.endpoint.url, response.bytes));
        continue;
      }
      const { end } = response;
      const context = { method: this.#method.path, endpoint: this.#transport.endpoint.url };
      this.#finish();
      this.#handler.end(end === undefined ? undefined : errorFromStatus(end.code, end.message, context));
    }
  }

  #cancel(why: 'unresponsive' | 'unauthenticated' | undefined): void {
    if (this.#isOver) return;
    this.#finish();
    const connection = this.#connection;
    if (connection === undefined) return;
    if (why === 'unresponsive') connection.watchSilence();
    connection.carry('to-server', 'receives', `cancellation of ${this.#method.path}`, () => {
      if (this.#isServerOver) return;
      this.#isServerOver = true;
      this.#sink?.canceled();
    });
  }

  #finish(): void {
    this.#isOver = true;
    this.#transport.ended(this, this.#connection);
  }
}

/** The methods that change the store. */
export const WRITES: ReadonlySet<string> = new Set([
  methods.kv.put.path,
  methods.kv.deleteRange.path,
  methods.kv.txn.path,
  methods.lease.leaseGrant.path,
  methods.lease.leaseRevoke.path,
]);
