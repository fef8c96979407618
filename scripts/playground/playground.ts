import { THIS_CLIENT } from '../../src/cli/trace/sentences.js';
import { FrameDescriber, withFields } from '../../src/cli/trace/story.js';
import { Client } from '../../src/core.js';
import { EventType } from '../../src/gen/mvccpb/kv.js';
import { failedByteStream, type OpenByteStream } from '../../src/host/host.js';
import { tapped, type WireFrame, type WireMessage } from '../../src/inspect/frames.js';
import { prefix } from '../../src/kv/keys.js';
import { textOf } from '../../src/runtime/bytes.js';
import { replaceEnvironment } from '../../src/runtime/environment.js';
import { InProcessConnection } from '../../src/testing/http2-server/in-process.js';
import { Http2Server } from '../../src/testing/http2-server/server.js';
import type { Clock } from '../../src/testing/memory/clock.js';
import { MemoryEtcd } from '../../src/testing/memory/memory-etcd.js';
import type { Route, Service } from '../../src/testing/memory/service.js';
import { type Commit, KeyRange, keyId } from '../../src/testing/memory/store.js';
import { http2Over } from '../../src/transport/http2/transport.js';
import { Random } from '../../test/support/simulation/random.js';
import { Process, World } from '../../test/support/simulation/world.js';
import { Application, LEDGER, LOCK } from './application.js';

// The world of the playground, without its page: one etcd in memory, three clients, and the network between them. All
// of them live in simulated time, so the page can stop it, and a test can run it as fast as it can.

/** Time in milliseconds that bytes need from a client to etcd or back. */
const LATENCY_MS = 25;
/** Longest simulated time in milliseconds that passes before a paused client is stalled again. */
const SLICE_MS = 20;
/** Steps of the trace that are kept: so many messages and events, and as many frames and renewals. */
export const MAX_STEPS = 600;
/** Revisions of the store that are kept. */
const MAX_COMMITS = 14;

/** A row of the trace. */
export interface Step {
  readonly id: number;
  /** Simulated milliseconds since the start. */
  readonly atMs: number;
  /** The name of the client whose message or event it is. Undefined for an event of etcd. */
  readonly client: string | undefined;
  /** Whether the client sent the message, received it, or neither. */
  readonly direction: 'sent' | 'received' | 'none';
  readonly label: string;
  /** The message in the words of the protocol. */
  readonly protocol: string;
  /** `event` is what happens at a client or at etcd. `fault` is what the visitor of the page did. */
  readonly kind: 'message' | 'renewal' | 'failure' | 'frame' | 'held' | 'event' | 'fault';
  readonly frame: WireFrame | undefined;
  readonly message: WireMessage | undefined;
  /** How the frame changes the flow-control windows. Empty if it changes none. */
  readonly windows: string;
}

/** A contender in the queue of the lock. */
export interface Contender {
  readonly client: string;
  readonly key: string;
  readonly createRevision: bigint;
}

/** A lease, and the keys that end with it. */
export interface LeaseView {
  readonly id: bigint;
  /** The name of the client that has granted the lease. */
  readonly client: string;
  readonly ttlSeconds: number;
  readonly remainingSeconds: number;
  readonly keys: readonly string[];
}

/** A commit of the store, and when it was made. */
export interface CommitView {
  readonly atMs: number;
  readonly revision: bigint;
  readonly changes: readonly { readonly type: 'put' | 'delete'; readonly key: string; readonly value: string }[];
}

export class Playground {
  readonly world: World;
  readonly server: MemoryEtcd;
  readonly clients: readonly PlayClient[];
  readonly steps: Step[] = [];
  readonly commits: CommitView[] = [];
  readonly clock: Clock;
  /** The simulated time at the start, on the clock of the frames. */
  readonly startMs: number;
  readonly #restore: () => void;
  /** The clients by the IDs of their leases, in hexadecimal as in the queue keys. */
  readonly leaseNames = new Map<string, string>();
  #isClosed = false;
  /** Number of calls that etcd handles at this moment. A commit outside of a call is the end of a lease. */
  #calls = 0;
  #lastStep = 0;
  #advancing: Promise<unknown> = Promise.resolve();

  /** `startTask` runs a function in a task of its own: after all promise callbacks. */
  constructor(startTask: (task: () => void) => void, seed = 1) {
    this.world = new World(new Random(seed), { startTask });
    this.startMs = this.world.now;
    this.#restore = replaceEnvironment(this.world.environment());
    const { world } = this;
    this.clock = {
      now: () => world.now,
      after: (delayMs, action) => world.at(world.now + delayMs, world.outside, 'timer', 'of etcd', action),
    };
    this.server = new MemoryEtcd({ clock: this.clock, random: () => world.random.fraction() });
    const { store } = this.server.member;
    store.onCommit((commit) => this.#onCommit(commit));
    store.onCompaction((revision) =>
      this.note(undefined, 'event', `etcd forgets all revisions before ${revision} (compaction)`),
    );
    this.clients = ['A', 'B', 'C'].map((name) => new PlayClient(this, name));
  }

  /** Simulated milliseconds since the start. */
  get nowMs(): number {
    return this.world.now - this.startMs;
  }

  /** Lets simulated time pass, and runs what is due in it. Does nothing after `close`. */
  advance(ms: number): Promise<void> {
    const advanced = this.#advancing.then(async () => {
      const until = this.world.now + ms;
      while (this.world.now < until && !this.#isClosed) {
        const end = Math.min(until, this.world.now + SLICE_MS);
        for (const client of this.clients) client.stayPaused(end);
        await this.world.run(() => this.#isClosed, end);
        this.world.now = Math.max(this.world.now, end);
      }
    });
    this.#advancing = advanced;
    return advanced;
  }

  /** The queue of the lock, its holder first. */
  get queue(): readonly Contender[] {
    const { key, rangeEnd } = prefix(`${LOCK}/`);
    return this.server.member.store
      .range(new KeyRange(key, rangeEnd))
      .toSorted((a, b) => (a.createRevision < b.createRevision ? -1 : 1))
      .map((kv) => {
        const [name, key] = [textOf(kv.value), textOf(kv.key)];
        const isCurrent = this.clients.some(({ app }) => app.queueKey === key);
        const client = isCurrent ? name : `${name} (an earlier session)`;
        return { client, key, createRevision: kv.createRevision };
      });
  }

  /** Returns the client of a queue key, also after the client has left the queue. */
  nameOf(queueKey: string): string | undefined {
    return this.leaseNames.get(queueKey.slice(LOCK.length + 1));
  }

  get leases(): readonly LeaseView[] {
    const { leases } = this.server.member;
    return leases.snapshot().map(({ id, ttlSeconds }) => ({
      id,
      client: this.leaseNames.get(id.toString(16)) ?? '',
      ttlSeconds: Number(ttlSeconds),
      remainingSeconds: Number(leases.timeToLive(id)?.remaining ?? 0n),
      keys: leases.keysOf(id).map((key) => textOf(key)),
    }));
  }

  /** The value of the ledger, and how often it was put. */
  get ledger(): { readonly value: string; readonly version: bigint } | undefined {
    const kv = this.server.member.store.get(keyId(new TextEncoder().encode(LEDGER)));
    return kv && { value: textOf(kv.value), version: kv.version };
  }

  /** Forgets the history before the current revision, as the command `etcdctl compact` does. */
  compact(): void {
    this.world.soon(this.world.outside, 'compacts', () => {
      const { store } = this.server.member;
      if (store.revision > store.compacted) store.compact(store.revision);
    });
  }

  /** Adds a step to the trace that is not a message. */
  note(client: string | undefined, kind: Step['kind'], label: string): void {
    this.add({
      client,
      direction: 'none',
      label,
      protocol: '',
      kind,
      frame: undefined,
      message: undefined,
      windows: '',
    });
  }

  add(step: Omit<Step, 'id' | 'atMs'>): void {
    this.#lastStep += 1;
    this.steps.push({ ...step, id: this.#lastStep, atMs: this.nowMs });
    // The oldest steps go, but renewals and frames, which are many, do not push out the others.
    const isAlike = (each: Step): boolean => isMinor(each) === isMinor(step);
    if (this.steps.filter(isAlike).length > MAX_STEPS) this.steps.splice(this.steps.findIndex(isAlike), 1);
  }

  /** Runs a handler of etcd. */
  serve<T>(handle: () => T): T {
    this.#calls += 1;
    try {
      return handle();
    } finally {
      this.#calls -= 1;
    }
  }

  /** Ends the simulated time. Nothing in this world happens after this. */
  close(): void {
    this.#isClosed = true;
    for (const { process } of this.clients) process.isKilled = true;
    this.#restore();
  }

  #onCommit({ revision, changes }: Commit): void {
    const views = changes.map(({ type, kv }) => ({
      type: type === EventType.DELETE ? ('delete' as const) : ('put' as const),
      key: textOf(kv.key),
      value: textOf(kv.value),
    }));
    this.commits.push({ atMs: this.nowMs, revision, changes: views });
    if (this.commits.length > MAX_COMMITS) this.commits.shift();
    if (this.#calls > 0) return;
    const keys = views.map(({ key }) => key).join(', ');
    this.note(undefined, 'event', `a lease has expired; etcd deletes ${keys}`);
  }
}

/** Whether a page shows the step only on request. */
export function isMinor({ kind }: Pick<Step, 'kind'>): boolean {
  return kind === 'frame' || kind === 'renewal';
}

/** One of the clients: a simulated process with an etcd client, its connection, and what can go wrong with them. */
export class PlayClient {
  readonly name: string;
  readonly #playground: Playground;
  readonly #connections = new Set<InProcessConnection>();
  process: Process;
  app: Application;
  isPaused = false;
  #blockedUntil = 0;
  /** Whether the wire is cut: no connection can be opened. */
  isCut = false;
  /** Whether the answer of the next write will be lost. */
  losesAnswer = false;

  constructor(playground: Playground, name: string) {
    this.#playground = playground;
    this.name = name;
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

  /** Kills the process: none of its code runs any more, and its connections break. */
  kill(): void {
    if (this.isKilled) return;
    this.#playground.note(this.name, 'fault', `${this.name} is killed`);
    this.process.isKilled = true;
    this.isPaused = false;
    this.losesAnswer = false;
    this.#breakConnections();
  }

  /** Starts a new process after `kill`. It knows nothing of the previous one. */
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

  /** Keeps the process busy with code of its own, so that it reads no messages and its timers fire late. */
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

  /** Lets etcd apply the next write, and breaks the connection before its answer arrives. Or no longer does so. */
  toggleLostAnswer(): void {
    this.losesAnswer = !this.losesAnswer;
    const what = this.losesAnswer ? 'will be lost' : 'will arrive';
    this.#playground.note(this.name, 'event', `the answer of the next write of ${this.name} ${what}`);
  }

  #start(): Application {
    const { name, process } = this;
    const describer = new FrameDescriber({
      contenderOf: (key) => this.#contenderOf(key),
      isPrefix: (key) => key === `${LOCK}/`,
    });
    const onFrame = (frame: WireFrame): void => {
      for (const { kind, ...description } of describer.describe(withFields(frame))) {
        const isRenewal = description.message?.typeName.startsWith('etcdserverpb.LeaseKeepAlive') ?? false;
        const { direction } = frame;
        this.#playground.add({ ...description, client: name, direction, frame, kind: isRenewal ? 'renewal' : kind });
      }
    };
    const transport = Object.assign(http2Over(tapped(this.#open, onFrame)), {
      endpoints: [this.#playground.server.endpoint],
    });
    return new Application(this.#playground, name, process, () => new Client({ transport }));
  }

  /** The name of a contender in sentences about the messages of this client. */
  #contenderOf(key: string): string | undefined {
    if (!key.startsWith(`${LOCK}/`)) return undefined;
    return key === this.app.queueKey ? THIS_CLIENT : (this.#playground.nameOf(key) ?? 'a contender');
  }

  readonly #open: OpenByteStream = (endpoint, _tls, events) => {
    if (this.isCut) return failedByteStream('connect ENETUNREACH', events);
    const { world, clock } = this.#playground;
    const { process } = this;
    const server = new Http2Server(this.#service(), { clock });
    const closed = (problem?: string): void => {
      this.#connections.delete(connection);
      this.#playground.note(
        this.name,
        'event',
        `the connection of ${this.name} is closed: ${problem ?? 'by its peer'}`,
      );
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

  /** etcd, as this client reaches it. */
  #service(): Service {
    const { server } = this.#playground;
    return {
      maxMessageBytes: server.maxMessageBytes,
      find: (path) => this.#route(server.find(path)),
    };
  }

  #route(route: Route): Route {
    const playground = this.#playground;
    if (!('unary' in route)) {
      return {
        method: route.method,
        streaming: (responses, call) => {
          const sink = playground.serve(() => route.streaming(responses, call));
          return {
            message: (request) => playground.serve(() => sink.message(request)),
            halfClosed: () => playground.serve(() => sink.halfClosed()),
            canceled: () => playground.serve(() => sink.canceled()),
          };
        },
      };
    }
    const { method } = route;
    return {
      method,
      unary: (request, call) => {
        const { revision } = playground.server;
        const answer = playground.serve(() => route.unary(request, call));
        if (!this.losesAnswer || playground.server.revision === revision) return answer;
        this.losesAnswer = false;
        playground.note(this.name, 'fault', `etcd applied the write of ${this.name}, but its answer is lost`);
        this.#breakConnections();
        return new Promise(() => {});
      },
    };
  }

  /** Breaks all connections. Each end notices it in its own process. */
  #breakConnections(): void {
    const { world } = this.#playground;
    for (const { client } of this.#connections) {
      world.soon(this.process, 'loses the connection', () => client.finish('read ECONNRESET'));
      world.soon(world.outside, 'loses a connection', () => client.peer?.finish('read ECONNRESET'));
    }
    this.#connections.clear();
  }
}
