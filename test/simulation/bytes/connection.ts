import type { Endpoint } from '../../../src/host/endpoint.js';
import type { ByteStream, ByteStreamEvents } from '../../../src/host/host.js';
import { type Deliver, InProcessConnection } from '../../../src/testing/http2-server/in-process.js';
import { Http2Server } from '../../../src/testing/http2-server/server.js';
import type { Service } from '../../../src/testing/memory/service.js';
import { http2Over } from '../../../src/wire/http2/http2-transport.js';
import type { TransportFactory } from '../../../src/wire/transport.js';
import type { SimulatedMember } from '../member.js';
import { type Link, type Path, SlowMessages } from '../network.js';
import type { Process } from '../process.js';
import { type Direction, Silence } from '../silence.js';
import type { World } from '../world.js';
import { FrameLog } from './frames.js';
import { MemberService } from './member-service.js';
import type { ByteNetwork } from './network.js';

/** How long a slow connection takes to open, in milliseconds. */
const SLOW_OPENING_MS = [500, 12_000] as const;
/**
 * The longest silence of a connection, on the client's clock, after which the client sends a request without a test of
 * the connection (S43). If the process was stalled for less than this time, bytes that arrived during the stall look as
 * if they had just arrived.
 */
const TRUST_MS = 4_000;
/**
 * After a suspension of its machine that is longer than this, in milliseconds of the world, the client must test a
 * connection. The client itself uses a lower limit.
 */
const SUSPENDED_MS = 1_100;
/** The probability that a slow connection never opens. */
const NEVER_OPENS = 0.25;

type Delivery = Parameters<Deliver>[0];

/** Returns the transports of a client in a process: HTTP/2 over simulated byte streams. */
export function byteTransport(bytes: ByteNetwork, process: Process): TransportFactory {
  return http2Over((endpoint, _, events) => {
    const member = bytes.network.cluster.memberAt(endpoint.url);
    return new ByteConnection(bytes, process, member, endpoint, events).client;
  });
}

/**
 * A server whose byte streams may deliver the bytes in pieces, and whose callbacks run only in events of the server.
 */
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
          // The receiver of the bytes calls `drained` in an event of the receiver's process.
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
  /** Whether the client's runtime already knows that the connection has ended, and refuses to write. */
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
      keepProcessAlive: (busy) => client.keepProcessAlive(busy),
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
    this.#bytes.network.notice(this.process, noticeMs, kind, '', () => this.#wire.client.finish('read ECONNRESET'));
    const due = world.time + serverNoticeMs;
    const serverDue = deliversLate ? Math.max(due, this.#lastDue['to-server']) : due;
    world.at(serverDue, world.outside, kind, '', () => this.#finishServer());
  }

  /** If `ms` is infinite, only the client's pings can notice the end. */
  vanish(ms: number, serverNoticeMs?: number): void {
    this.cut(false, ms, serverNoticeMs);
    if (ms === Number.POSITIVE_INFINITY) this.#refusesWrites = false;
  }

  #finishServer(): void {
    this.#deliversLate = false;
    this.#wire.client.peer?.finish('read ECONNRESET');
  }

  /** Schedules the arrival of a delivery. A silent connection delays the delivery. */
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
    const slowMs = network.slownessMs(direction);
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
    // A client that is stopped between a read of bytes and its read of the clock considers the bytes younger than they
    // are.
    const seenMs = process.lastStop !== undefined ? Math.max(this.#arrivedMs, process.reached) : this.#arrivedMs;
    this.#heardAt = Math.max(this.#heardAt, process.monotonicAt(seenMs));
  }

  /**
   * Judges the frames that the client sends: the client must send no request on a connection that may have died
   * unnoticed (S43). If the process is stopped in the middle of an event, the silence ends at the start of the event,
   * because the client has tested the connection before the stop.
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
    // The client compares the wall clock with the monotonic clock, so a wall clock that was set may hide the
    // suspension.
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
    const { network } = this.#bytes;
    network.connections.delete(this);
    this.#bytes.count('refused connection');
    network.onRefused(this.process, this.member);
    network.notice(this.process, network.delayMs(), 'is refused by', this.member.url, () =>
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
