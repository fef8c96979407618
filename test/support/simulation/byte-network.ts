import type { Endpoint } from '../../../src/host/endpoint.js';
import type { ByteStream, ByteStreamEvents } from '../../../src/host/host.js';
import { decode, encode } from '../../../src/protobuf/codec.js';
import type { Method } from '../../../src/protobuf/schema.js';
import { type Deliver, InProcessConnection } from '../../../src/testing/http2-server/in-process.js';
import { Http2Server } from '../../../src/testing/http2-server/server.js';
import type { Clock } from '../../../src/testing/memory/clock.js';
import {
  type RequestSink,
  type ResponseStream,
  type Route,
  type ServerCall,
  type Service,
  StatusError,
  serverError,
} from '../../../src/testing/memory/service.js';
import { ErrorCode, StreamError } from '../../../src/transport/http2/frame.js';
import { http2Over } from '../../../src/transport/http2/transport.js';
import type { TransportFactory } from '../../../src/transport/transport.js';
import { FrameLog } from './byte-frames.js';
import { Calls } from './calls.js';
import { type SimulatedMember, serverClock } from './cluster.js';
import { type Link, type Network, type Path, SlowMessages } from './network.js';
import type { Random } from './random.js';
import { type Direction, Silence } from './silence.js';
import type { Process, World } from './world.js';

/** How a history uses HTTP/2 over simulated byte streams. */
export interface BytePlan {
  /** Whether written bytes arrive in pieces of random sizes, instead of as they were written. */
  readonly isSplit: boolean;
  /** The probability that a connection opens slowly, as long as faults may begin. */
  readonly slowOpenings: number;
  /**
   * How many bytes a connection carries in a millisecond in each direction, as long as faults may begin. The link has a
   * buffer without a limit, so the sender never waits. Default: no limit.
   */
  readonly bytesPerMs?: number | undefined;
  /** Maximum number of open streams on a connection. Default: no limit. */
  readonly maxStreams?: number | undefined;
}

/** How long a slow connection takes to open, in milliseconds. */
const SLOW_OPENING_MS = [500, 12_000] as const;
/**
 * The longest silence of a connection, on the client's clock, after which the client sends a request at once (S43). If
 * the process was stalled for less than that, bytes that have arrived meanwhile look as if they had just arrived.
 */
const TRUST_MS = 4_000;
/** More than the suspension of a machine after which the client tests a connection, in milliseconds of the world. */
const SUSPENDED_MS = 1_100;
/** The probability that a slow connection never opens. */
const NEVER_OPENS = 0.25;
/** Maximum number of deliveries for the bytes of one write. */
const MAX_DELIVERIES = 3;
/** Maximum length in bytes of a segment on a slow link. */
const SEGMENT_BYTES = 16_384;
/** Maximum length of a short piece in bytes. A frame header is longer. */
const SHORT_PIECE_BYTES = 8;

type Delivery = Parameters<Deliver>[0];

/** Draws whether a history uses byte streams. The plan is undefined if the history uses whole messages. */
export function drawBytes(random: Random, isUnary: boolean): BytePlan | undefined {
  if (!random.chance(0.1)) return undefined;
  const isSplit = random.chance(0.5);
  const slowOpenings = random.pick([0, 0, 0.1]);
  const maxStreams = isUnary ? random.pick([undefined, 1, 2]) : undefined;
  const bytesPerMs = random.pick([undefined, undefined, undefined, 1, 64]);
  return { isSplit, slowOpenings, maxStreams, bytesPerMs };
}

/**
 * The simulated network at the level of bytes: the clients use the HTTP/2 transport of `src/`, and each member is an
 * HTTP/2 server. It shares the paths, the connections and the faults of a `Network`. Each connection has an
 * `Http2Server` of its own, so that the faults of a call know its connection.
 */
export class ByteNetwork {
  readonly network: Network;
  readonly plan: BytePlan;
  readonly clock: Clock;
  /** What this network has done, for the table of coverage. */
  readonly coverage = new Map<string, number>();
  /** Reports a broken rule. */
  readonly violated: (rule: string, detail: string) => void;
  /** The connections that are open at a server. */
  readonly accepted = new Set<ByteConnection>();
  /** The streaming calls that are open at a server. */
  readonly streams = new Set<object>();
  isHealed = false;

  constructor(network: Network, plan: BytePlan, violated: (rule: string, detail: string) => void) {
    this.network = network;
    this.plan = plan;
    this.violated = violated;
    this.clock = serverClock(network.world, 'of a connection');
  }

  /** Returns the transports of a client in this process. */
  transportOf(process: Process): TransportFactory {
    return http2Over((endpoint, _, events) => {
      const member = this.network.cluster.members.find(({ url }) => url === endpoint.url);
      if (member === undefined) throw new Error(`no member has the URL ${endpoint.url}`);
      return new ByteConnection(this, process, member, endpoint, events).client;
    });
  }

  count(what: string): void {
    this.coverage.set(what, (this.coverage.get(what) ?? 0) + 1);
  }

  /** Reports what the servers still hold after all clients are closed. */
  checkLeft(): void {
    // Bytes that a closed client has sent may still be on a slow link, and then open a connection or a stream.
    if (this.plan.bytesPerMs !== undefined) return;
    for (const { process, member } of this.accepted)
      this.violated('connection left', `of ${process.name} at ${member.url}`);
    if (this.streams.size > 0) this.violated('stream left', `${this.streams.size} streams are open at the servers`);
  }

  /** Makes a byte stream deliver the bytes of each write in pieces. */
  split(stream: ByteStream): ByteStream {
    const { isSplit, bytesPerMs } = this.plan;
    if (!isSplit && bytesPerMs === undefined) return stream;
    const { random } = this.network.world;
    return {
      write: (parts) => {
        let isWritable: boolean | undefined = true;
        for (const group of isSplit ? groups(random, parts) : segments(parts)) isWritable = stream.write(group);
        this.count('split bytes');
        return isWritable;
      },
      hold: (busy) => stream.hold(busy),
      close: () => stream.close(),
    };
  }
}

/** Divides the bytes of one write into deliveries. The server or client reads each piece of a delivery on its own. */
function groups(random: Random, parts: readonly Uint8Array[]): Uint8Array[][] {
  const deliveries: Uint8Array[][] = [[]];
  const isShort = random.chance(0.3);
  for (const part of parts)
    for (let at = 0; at < part.length; ) {
      const length = isShort ? random.between(1, SHORT_PIECE_BYTES) : random.between(1, part.length);
      deliveries.at(-1)?.push(part.subarray(at, at + length));
      at += length;
      if (deliveries.length < MAX_DELIVERIES && random.chance(0.2)) deliveries.push([]);
    }
  return deliveries.filter(({ length }) => length > 0);
}

/** Divides the bytes of one write into the segments that a slow link carries one after the other. */
function segments(parts: readonly Uint8Array[]): Uint8Array[][] {
  return parts.flatMap((part) =>
    Array.from({ length: Math.ceil(part.length / SEGMENT_BYTES) }, (_, index) => [
      part.subarray(index * SEGMENT_BYTES, (index + 1) * SEGMENT_BYTES),
    ]),
  );
}

/** A server whose byte streams deliver in pieces, and call it back only in events of the server. */
class SimulatedServer extends Http2Server {
  readonly #bytes: ByteNetwork;

  constructor(bytes: ByteNetwork, service: Service) {
    super(service, { clock: bytes.clock, maxConcurrentStreams: bytes.plan.maxStreams });
    this.#bytes = bytes;
  }

  override accept(endpoint: string, open: (events: ByteStreamEvents) => ByteStream): ReturnType<Http2Server['accept']> {
    const { world } = this.#bytes.network;
    return super.accept(endpoint, (events) =>
      this.#bytes.split(
        open({
          opened: () => events.opened(),
          read: (bytes) => events.read(bytes),
          // The receiver of the bytes calls this in an event of its own.
          drained: () => world.soon(world.outside, 'may write on', () => events.drained()),
          closed: (problem) => events.closed(problem),
        }),
      ),
    );
  }
}

/** A connection of a client to a member, as a pair of byte streams. */
class ByteConnection implements Link {
  readonly process: Process;
  readonly member: SimulatedMember;
  readonly silence: Silence;
  isLost = false;
  /** The client's end. */
  readonly client: ByteStream;
  readonly #bytes: ByteNetwork;
  readonly #world: World;
  readonly #path: Path;
  readonly #server: SimulatedServer;
  readonly #wire: InProcessConnection;
  readonly #frames: { readonly [direction in Direction]: FrameLog };
  readonly #slow: SlowMessages;
  /** When the last delivery in each direction arrives. */
  readonly #lastDue = { 'to-server': 0, 'to-client': 0 };
  /** When a slow link has carried the last delivery in each direction. */
  readonly #carriedAt = { 'to-server': 0, 'to-client': 0 };
  #isCut = false;
  /** Whether the client's runtime already knows that the connection has ended, so that it sends nothing. */
  #refusesWrites = false;
  #deliversLate = false;
  /** When the client dialed, and when it last sent a PING. */
  readonly #dialedMs: number;
  #pingedMs = 0;
  /** When the client sent the last PING after which bytes have arrived. */
  #testedMs = 0;
  /** When the last delivery arrived at the machine of the client. A stalled process reads it later. */
  #arrivedMs = 0;
  /** When the last bytes that the client has read arrived, on its monotonic clock. */
  #heardAt = 0;
  #isRefused = false;
  #isDialed = false;
  #hasArrived = false;

  constructor(
    bytes: ByteNetwork,
    process: Process,
    member: SimulatedMember,
    endpoint: Endpoint,
    events: ByteStreamEvents,
  ) {
    this.process = process;
    this.member = member;
    this.#bytes = bytes;
    this.#slow = new SlowMessages(bytes.network);
    this.#world = bytes.network.world;
    this.#path = bytes.network.path(process, member);
    this.silence = new Silence(this.#path.silence);
    const log = (from: string, hasPreface: boolean): FrameLog =>
      new FrameLog(hasPreface, (problem) => bytes.violated('HTTP/2 error', `${from} sends ${problem}`));
    this.#frames = { 'to-server': log(process.name, true), 'to-client': log(member.url, false) };
    this.#dialedMs = this.#world.time;
    this.#server = new SimulatedServer(bytes, new MemberService(bytes, this));
    bytes.network.connections.add(this);
    const ownEvents: ByteStreamEvents = {
      opened: () => events.opened(),
      read: (read) => {
        this.#hears();
        const copy = read.slice();
        events.read(copy);
        // The bytes are valid only during the call, so the runtime may reuse their memory.
        copy.fill(0xff);
      },
      drained: () => this.#world.soon(process, 'may write on', () => events.drained()),
      closed: (problem) => {
        this.isLost = true;
        events.closed(problem);
      },
    };
    this.#wire = new InProcessConnection(this.#server, endpoint.url, ownEvents, (delivery, run) =>
      this.#deliver(delivery, run),
    );
    const { client } = this.#wire;
    this.client = bytes.split({
      write: (parts) => {
        if (!this.#refusesWrites) return client.write(parts);
        bytes.count('refused bytes');
        return undefined;
      },
      hold: (busy) => client.hold(busy),
      close: () => client.close(),
    });
    // A process that is killed in the middle of an event runs to the end of that event.
    if (process.isKilled) this.cut(true);
  }

  heal(): void {
    const { now } = this.#world;
    this.silence.end(now);
    for (const direction of ['to-server', 'to-client'] as const)
      this.#lastDue[direction] = Math.min(this.#lastDue[direction], now);
    this.#slow.hasten();
  }

  /** Does nothing, because the client's pings notice the silence. */
  watchSilence(): void {}

  /** Makes the server announce the end of the connection. */
  onLeaving(): void {
    this.#world.soon(this.#world.outside, 'announces the end of a connection', () => this.#server.leave());
  }

  cut(deliversLate = false, noticeMs = 0, serverNoticeMs = this.#bytes.network.delayMs()): void {
    if (this.#isCut) return;
    this.#isCut = true;
    this.#deliversLate = deliversLate;
    this.#refusesWrites = this.#world.random.chance(0.5);
    this.#bytes.network.connections.delete(this);
    const world = this.#world;
    const kind = 'notices the end of a connection';
    this.#bytes.network.notice(this.process, noticeMs, () => this.#wire.client.finish('read ECONNRESET'));
    const due = world.time + serverNoticeMs;
    const serverDue = deliversLate ? Math.max(due, this.#lastDue['to-server']) : due;
    world.at(serverDue, world.outside, kind, '', () => this.#finishServer());
  }

  /** If the client never learns of the end by itself, its pings must notice it. */
  vanish(ms: number, serverNoticeMs?: number): void {
    this.cut(false, ms, serverNoticeMs);
    if (ms === Number.POSITIVE_INFINITY) this.#refusesWrites = false;
  }

  closedAtServer(): void {
    this.#bytes.accepted.delete(this);
    this.#bytes.network.connections.delete(this);
  }

  #finishServer(): void {
    this.#deliversLate = false;
    this.#wire.client.peer?.finish('read ECONNRESET');
  }

  /** Schedules what arrives at one end. A silent connection delays it. */
  #deliver({ direction, bytes }: Delivery, run: () => void): void {
    const world = this.#world;
    const { network } = this.#bytes;
    const length = bytes.reduce((sum, part) => sum + part.length, 0);
    const isOpening = !this.#isDialed;
    this.#isDialed = true;
    const detail = length > 0 ? this.#frames[direction].push(bytes) : isOpening ? 'a connection' : 'no bytes';
    if (direction === 'to-server') this.#judge(detail);
    const owner = direction === 'to-server' ? world.outside : this.process;
    const kind = direction === 'to-server' ? `receives from ${this.process.name}` : 'receives';
    const slowMs = direction === 'to-server' && network.slowMs > 0 ? world.random.fraction() * network.slowMs : 0;
    const carriedAt = this.#carry(direction, length);
    const due = carriedAt + network.delayMs() + slowMs + (isOpening ? this.#slowMs() : 0);
    this.#lastDue[direction] = Math.max(due, this.#lastDue[direction]);
    let arrivesMs = this.#lastDue[direction];
    const arrive = (): void => {
      const silentUntil = this.silence.until(direction);
      if (silentUntil > world.now) {
        arrivesMs = silentUntil + network.delayMs();
        return this.#slow.deliver(arrivesMs, owner, kind, detail, arrive);
      }
      if (this.#isRefused || (this.#isCut && (direction === 'to-client' || !this.#deliversLate))) return;
      if (direction === 'to-client') {
        this.#arrivedMs = Math.min(arrivesMs, world.now);
        return run();
      }
      const isOpen = this.#hasArrived;
      this.#hasArrived = true;
      if (!isOpen && (this.member.isDown || this.#path.refusedUntil > world.now)) return this.#refuse();
      if (this.member.isDown) return this.#finishServer();
      run();
    };
    this.#slow.deliver(this.#lastDue[direction], owner, kind, detail, arrive);
  }

  /** Records that the client reads bytes, which may have arrived at its machine earlier. */
  #hears(): void {
    const { process } = this;
    if (this.#arrivedMs >= this.#pingedMs) this.#testedMs = this.#pingedMs;
    // A client that is stopped between a read of bytes and its read of the clock takes the bytes for younger.
    const seenMs = process.wasStopped ? Math.max(this.#arrivedMs, process.reached) : this.#arrivedMs;
    this.#heardAt = Math.max(this.#heardAt, process.monotonicAt(seenMs));
  }

  /**
   * Judges the frames that the client sends: no request on a connection that may have died unnoticed (S43). In an event
   * in which the process is stopped, the client has tested the connection before the stop.
   */
  #judge(frames: string): void {
    const { process } = this;
    const world = this.#world;
    if (frames.includes(', PING ')) this.#pingedMs = world.time;
    if (!frames.includes(', HEADERS ')) return;
    const silentMs = process.monotonicAt(world.now) - this.#heardAt;
    if (silentMs > (process.stalledUntil > 0 ? 2 * TRUST_MS : TRUST_MS))
      this.#bytes.violated(
        'untested connection',
        `${process.name} sends a request at ${world.now} ms, after a silence of ${silentMs} ms`,
      );
    // The client compares the wall clock with the monotonic clock, so a wall clock that is set hides the suspension.
    const { fromMs = 0, untilMs = 0 } = process.wallOffsetMs === 0 ? (process.suspensions.at(-1) ?? {}) : {};
    const isSuspect = untilMs <= world.now && untilMs - fromMs > SUSPENDED_MS && this.#dialedMs < fromMs;
    if (!isSuspect) return;
    this.#bytes.count('request after a suspension');
    if (this.#testedMs < untilMs)
      this.#bytes.violated(
        'untested connection',
        `${process.name} sends a request at ${world.now} ms, after a suspension`,
      );
  }

  #refuse(): void {
    this.#isRefused = true;
    const world = this.#world;
    this.#bytes.network.connections.delete(this);
    this.#bytes.count('refused connection');
    this.#bytes.network.onRefused(this.process, this.member);
    const due = world.now + this.#bytes.network.delayMs();
    world.at(due, this.process, 'is refused by', this.member.url, () =>
      this.#wire.client.finish('connect ECONNREFUSED'),
    );
  }

  /** Returns when the link has carried these bytes, after all earlier bytes of the direction. */
  #carry(direction: Direction, length: number): number {
    const { plan, isHealed } = this.#bytes;
    const { time } = this.#world;
    if (plan.bytesPerMs === undefined || isHealed || length === 0) return time;
    this.#bytes.count('bytes over a slow link');
    this.#carriedAt[direction] = Math.max(time, this.#carriedAt[direction]) + length / plan.bytesPerMs;
    return this.#carriedAt[direction];
  }

  #slowMs(): number {
    const { plan, isHealed } = this.#bytes;
    if (isHealed || plan.slowOpenings === 0 || !this.#world.random.chance(plan.slowOpenings)) return 0;
    this.#bytes.count('slow connection');
    const { random } = this.#world;
    return random.chance(NEVER_OPENS) ? Number.POSITIVE_INFINITY : random.magnitude(...SLOW_OPENING_MS);
  }
}

/** What a member serves on one connection. The faults of calls strike here. */
class MemberService implements Service {
  readonly maxMessageBytes: number;
  readonly #bytes: ByteNetwork;
  readonly #connection: ByteConnection;

  constructor(bytes: ByteNetwork, connection: ByteConnection) {
    this.maxMessageBytes = bytes.network.cluster.server.maxMessageBytes;
    this.#bytes = bytes;
    this.#connection = connection;
  }

  connect(): () => void {
    this.#bytes.accepted.add(this.#connection);
    return () => this.#connection.closedAtServer();
  }

  find(path: string): Route {
    const route = this.#bytes.network.cluster.server.find(path);
    const { method } = route;
    if ('unary' in route) return { method, unary: (request, call) => this.#unary(method, request, call) };
    return { method, streaming: (responses, call) => this.#stream(method, responses, call) };
  }

  #unary(method: Method<unknown, unknown>, request: unknown, call: ServerCall): object | Promise<object> {
    const { network } = this.#bytes;
    const { world } = network;
    const connection = this.#connection;
    const fault = network.faultOf(connection.process, method);
    const later = <T>(ms: number, kind: string, act: () => T): Promise<T> =>
      new Promise((resolve, reject) => {
        world.at(world.now + ms, world.outside, kind, method.path, () => {
          try {
            resolve(act());
          } catch (error) {
            reject(error);
          }
        });
      });
    switch (fault?.type) {
      case 'delay request':
        return later(fault.ms, 'processes', () => this.#answer(method, request, call));
      case 'delay response': {
        const answer = this.#answer(method, request, call);
        // The answer may be a refusal that arrives before anybody waits for it.
        if (answer instanceof Promise) answer.catch(() => {});
        return later(fault.ms, 'answers', () => answer);
      }
      case 'lose request':
        if (fault.ms !== undefined) this.#again(fault.ms, method, request, call);
        connection.cut(false, network.delayMs());
        return NEVER;
      case 'lose response': {
        const answer = this.#answer(method, request, call);
        if (answer instanceof Promise) answer.catch(() => {});
        connection.cut(false, network.delayMs());
        return NEVER;
      }
      case 'early copy':
        this.#again(0, method, request, copyOf(call));
        return later(fault.ms, 'processes', () => this.#answer(method, request, call));
      case 'duplicate request': {
        const answer = this.#answer(method, request, call);
        this.#again(fault.ms, method, request, copyOf(call));
        return answer;
      }
      case 'refuse': {
        const { calls } = network.cluster;
        if (!fault.isApplied) calls?.received(call.metadata);
        if (fault.copyMs !== undefined) this.#again(fault.copyMs, method, request, copyOf(call));
        const answer = fault.isApplied ? this.#answer(method, request, call) : undefined;
        const refusal = serverError(fault.reason);
        if (!fault.resetsStream) calls?.refused(call.metadata, refusal);
        const error = fault.resetsStream ? new StreamError(ErrorCode.REFUSED_STREAM, 'refused by a proxy') : refusal;
        if (answer instanceof Promise) return answer.then(() => Promise.reject(error));
        throw error;
      }
      default:
        return this.#answer(method, request, call);
    }
  }

  /** Applies the request again, or late. The response goes nowhere. */
  #again(ms: number, method: Method<unknown, unknown>, request: unknown, call: ServerCall): void {
    this.#bytes.network.arriveLate(ms, 'receives a copy of', method.path, () => {
      try {
        const answer = this.#answer(method, request, call);
        if (answer instanceof Promise) answer.catch(() => {});
      } catch (error) {
        if (!(error instanceof StatusError)) throw error;
      }
    });
  }

  #answer(method: Method<unknown, unknown>, request: unknown, call: ServerCall): object | Promise<object> {
    const { member } = this.#connection;
    if (member.isDown) return NEVER;
    const decoded = (bytes: Uint8Array): object => decode(method.response, bytes) as object;
    return this.#watched(() => {
      const answer = this.#bytes.network.cluster.unary(member, method, encode(method.request, request as object), call);
      return answer instanceof Promise ? answer.then(decoded) : decoded(answer);
    });
  }

  #stream(
    method: Method<unknown, unknown>,
    responses: ResponseStream<unknown>,
    call: ServerCall,
  ): RequestSink<unknown> {
    const { streams, network } = this.#bytes;
    const own: ResponseStream<unknown> = {
      send: (message) => responses.send(message),
      end: (error) => {
        streams.delete(own);
        responses.end(error);
      },
    };
    streams.add(own);
    try {
      const sink = this.#watched(() => network.cluster.stream(this.#connection.member, method, own, call));
      return {
        message: (request) => this.#watched(() => sink.message(request)),
        halfClosed: () => this.#watched(() => sink.halfClosed()),
        canceled: () => {
          streams.delete(own);
          this.#watched(() => sink.canceled());
        },
      };
    } catch (error) {
      streams.delete(own);
      throw error;
    }
  }

  /** Reports an error of the server that is not a status. */
  #watched<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (!(error instanceof StatusError)) this.#bytes.network.world.unhandled.push(error);
      throw error;
    }
  }
}

/** Returns the call of a copy of a request. */
function copyOf({ signal, endpoint, metadata }: ServerCall): ServerCall {
  return { signal, endpoint, metadata: Calls.copyOf(metadata) };
}

/** The answer of a call whose connection is cut. */
const NEVER = new Promise<never>(() => {});
