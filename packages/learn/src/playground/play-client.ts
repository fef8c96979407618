import { CoreClient } from '../../../../src/core.js';
import {
  failedByteStream,
  Http2Server,
  http2Over,
  InProcessConnection,
  type MemoryMember,
  type OpenByteStream,
  type Route,
  type Service,
} from '../../../../src/internal.js';
import { Process } from '../../../../test/simulation/process.js';
import { FrameDescriber, THIS_CLIENT, tapped, type WireFrame, withFields } from '../../../cli/src/index.js';
import { Application, LOCK } from './application.js';
import type { Playground } from './playground.js';

/** Time in milliseconds that bytes need from a client to etcd or back. */
const LATENCY_MS = 25;
/** The paths of the methods that write keys. */
const WRITES = /\/(Put|DeleteRange|Txn)$/;
/** Longest simulated time in milliseconds that passes before a paused client is stalled again. */
export const SLICE_MS = 10;

/** One of the clients: a simulated process with an etcd client, its connection, and what can go wrong with them. */
export class PlayClient {
  readonly name: string;
  readonly #playground: Playground;
  readonly #connections = new Set<InProcessConnection>();
  /** The members that the client knows. It calls the first one that answers. */
  #known: readonly MemoryMember[];
  process: Process;
  app: Application;
  isPaused = false;
  #blockedUntil = 0;
  /** Whether the wire is cut: no connection can be opened. */
  isCut = false;
  /** Whether the answer of the next write will be lost. */
  losesAnswer = false;

  constructor(playground: Playground, name: string, known: readonly MemoryMember[]) {
    this.#playground = playground;
    this.name = name;
    this.#known = known;
    this.process = new Process(name);
    this.app = this.#start();
  }

  get isKilled(): boolean {
    return this.process.isKilled;
  }

  /** Whether the process runs no code at this moment. */
  get isStalled(): boolean {
    return this.isPaused || this.process.stalledUntil > this.#playground.world.now;
  }

  /** The names of the members that the client knows. */
  get known(): readonly string[] {
    return this.#known.map(({ name }) => name);
  }

  /** Starts the process again, with a client that knows other members. */
  knows(...members: readonly MemoryMember[]): void {
    this.#known = members;
    this.#breakConnections();
    this.process.isKilled = true;
    this.process = new Process(this.name);
    this.app = this.#start();
  }

  /** Kills the process: it runs no further code, and its connections break. */
  kill(): void {
    if (this.isKilled) return;
    this.#playground.note(this.name, 'fault', `${this.name} is killed`);
    this.app.say('is killed', 'bad');
    this.process.isKilled = true;
    this.isPaused = false;
    this.losesAnswer = false;
    this.#breakConnections();
  }

  /** Starts a new process after `kill`. The new process knows nothing of the previous process. */
  restart(): void {
    if (!this.isKilled) return;
    this.process = new Process(this.name);
    this.#playground.note(this.name, 'event', `${this.name} starts again`);
    this.app = this.#start();
  }

  /** Stops the process, as SIGSTOP does. Its connections stay open. */
  pause(): void {
    if (this.isPaused || this.isKilled) return;
    this.isPaused = true;
    this.#playground.note(this.name, 'fault', `${this.name} is paused; its connection stays open`);
    this.stayPaused(this.#playground.world.now + SLICE_MS);
  }

  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.process.stalledUntil = Math.max(this.#playground.world.now, this.#blockedUntil);
    this.#playground.note(this.name, 'event', `${this.name} continues`);
  }

  /** Keeps a paused process from running until after this time. */
  stayPaused(until: number): void {
    if (this.isPaused) this.process.stalledUntil = Math.max(this.process.stalledUntil, until + 1);
  }

  /** Keeps the process busy with other code, so that it reads no messages and its timers fire late. */
  block(ms: number): void {
    if (this.isKilled || this.isPaused) return;
    this.#blockedUntil = this.#playground.world.now + ms;
    this.process.stalledUntil = this.#blockedUntil;
    this.#playground.note(this.name, 'fault', `the event loop of ${this.name} is blocked for ${ms / 1_000} s`);
  }

  /** Breaks the connection, and refuses new ones until `mendWire`. */
  cutWire(): void {
    if (this.isCut) return;
    this.isCut = true;
    this.#playground.note(this.name, 'fault', `the wire between ${this.name} and etcd is cut`);
    this.#breakConnections();
  }

  mendWire(): void {
    if (!this.isCut) return;
    this.isCut = false;
    this.#playground.note(this.name, 'event', `the wire between ${this.name} and etcd works again`);
  }

  /**
   * Turns on or off whether the next answer is lost. If so, etcd applies the next write, and the connection breaks
   * before the answer arrives.
   */
  toggleLostAnswer(): void {
    this.losesAnswer = !this.losesAnswer;
    const what = this.losesAnswer ? 'will be lost' : 'will arrive';
    this.#playground.note(this.name, 'event', `the answer of the next write of ${this.name} ${what}`);
  }

  #start(): Application {
    const { name, process } = this;
    const opens = new Map(this.#known.map((member) => [member.endpoint, this.#traced(member)]));
    const open: OpenByteStream = (endpoint, tls, events) =>
      (opens.get(endpoint.url) as OpenByteStream)(endpoint, tls, events);
    const transport = Object.assign(http2Over(open), { endpoints: [...opens.keys()] });
    return new Application(this.#playground, name, process, () => new CoreClient({ transport }));
  }

  /** Returns a function that opens connections to a member, whose frames appear in the trace. */
  #traced(member: MemoryMember): OpenByteStream {
    const describer = new FrameDescriber({
      contenderOf: (key) => this.#contenderOf(key),
      isPrefix: (key) => key === `${LOCK}/`,
    });
    const lane = this.#playground.laneOf(member);
    return tapped(this.#openerOf(member), (frame: WireFrame): void => {
      for (const { kind, ...description } of describer.describe(withFields(frame))) {
        const isRenewal = description.protocol.startsWith('LeaseKeepAlive');
        const [from, to] = frame.direction === 'sent' ? [this.name, lane] : [lane, this.name];
        const shownKind = isRenewal ? 'renewal' : kind;
        this.#playground.add({ ...description, client: this.name, from, to, frame, kind: shownKind });
      }
    });
  }

  /** The name of a contender in sentences about the messages of this client. */
  #contenderOf(key: string): string | undefined {
    if (!key.startsWith(`${LOCK}/`)) return undefined;
    return key === this.app.queueKey ? THIS_CLIENT : (this.#playground.nameOf(key) ?? 'a contender');
  }

  #openerOf(member: MemoryMember): OpenByteStream {
    return (endpoint, _tls, events) => {
      if (this.isCut) return failedByteStream('connect ENETUNREACH', events);
      const { world, clock } = this.#playground;
      const { process } = this;
      const server = new Http2Server(this.#serviceOf(member), { clock });
      const closed = (problem?: string): void => {
        this.#connections.delete(connection);
        const what = `the connection of ${this.name} is closed: ${problem ?? 'by its peer'}`;
        this.#playground.note(this.name, 'event', what);
        events.closed(problem);
      };
      const connection: InProcessConnection = new InProcessConnection(
        server,
        endpoint.url,
        { opened: () => events.opened(), read: (bytes) => events.read(bytes), drained: () => events.drained(), closed },
        ({ direction }, run) => {
          const receiver = direction === 'to-server' ? world.outside : process;
          world.at(world.time + LATENCY_MS, receiver, 'receives', '', run);
        },
      );
      this.#connections.add(connection);
      return connection.client;
    };
  }

  /** The services of a member. If `losesAnswer` is true, the answer to the next write is lost. */
  #serviceOf(member: MemoryMember): Service {
    return {
      maxMessageBytes: member.maxMessageBytes,
      find: (path) => this.#route(member.find(path), this.#playground.laneOf(member)),
      connect: (lost) => member.connect(lost),
    };
  }

  #route(route: Route, lane: string): Route {
    if (!('unary' in route)) return route;
    const playground = this.#playground;
    return {
      method: route.method,
      unary: async (request, call) => {
        const { revision } = playground.server;
        const answer = await route.unary(request, call);
        const isWrite = WRITES.test(route.method.path) && playground.server.revision > revision;
        if (!this.losesAnswer || !isWrite) return answer;
        this.losesAnswer = false;
        playground.addWithoutFrame({
          client: this.name,
          from: lane,
          to: this.name,
          label: `etcd applied the write of ${this.name}, but its answer is lost`,
          protocol: route.method.path.slice(route.method.path.lastIndexOf('/') + 1),
          kind: 'lost',
        });
        this.#breakConnections();
        return new Promise(() => {});
      },
    };
  }

  /** Breaks all connections. Each end notices the break in its own process. */
  #breakConnections(): void {
    const { world } = this.#playground;
    for (const { client } of this.#connections) {
      world.soon(this.process, 'loses the connection', () => client.finish('read ECONNRESET'));
      world.soon(world.outside, 'loses a connection', () => client.peer?.finish('read ECONNRESET'));
    }
    this.#connections.clear();
  }
}
