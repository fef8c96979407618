import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Client, type ClientOptions } from '../../src/extras/full/client.js';
import { type RetryPolicy, retryPolicy } from '../../src/extras/observe/retry-policy.js';
import type { Balance } from '../../src/rpc/endpoint-pool.js';
import type { Interceptor } from '../../src/rpc/interceptors.js';
import type { CallDiagnostics } from '../../src/rpc/observe.js';
import type { TransportFactory } from '../../src/wire/transport.js';
import { OpenCalls } from '../support/open-calls.js';
import type { Calls } from './calls.js';
import type { SimulatedCluster } from './cluster.js';
import type { Process } from './process.js';
import type { Random } from './random.js';
import { ROOT } from './traits.js';
import type { World } from './world.js';

/** Options of a client that change how it makes calls. */
export interface ClientPlan {
  /** Whether the client has a policy for the delays of its attempts. */
  readonly hasRetryPolicy: boolean;
  /** The interval in milliseconds between two reads of the member list. Undefined: the client does not read it. */
  readonly syncMs: number | undefined;
  /** The option `orderedReads`: whether a serializable read must not return an older revision than earlier reads. */
  readonly ordersReads: boolean;
  /** When the program changes the order of the endpoints, in milliseconds. Undefined: never. */
  readonly movesMs: number | undefined;
  /** Whether the client repeats writes until a server answers. */
  readonly retriesWrites: boolean;
}

/**
 * The shortest interval between two reads of the member list. With shorter intervals, a history has too many events.
 */
const MIN_SYNC_MS = 100;

/** Draws the options of the clients of a history. */
export function drawOptions(random: Random): ClientPlan | undefined {
  if (random.chance(0.6)) return undefined;
  return {
    hasRetryPolicy: random.chance(0.4),
    syncMs: random.chance(0.4) ? random.magnitude(MIN_SYNC_MS, 5_000) : undefined,
    ordersReads: random.chance(0.3),
    movesMs: random.chance(0.4) ? random.magnitude(20, 10_000) : undefined,
    retriesWrites: random.chance(0.5),
  };
}

/**
 * The retry policy of the clients that have one. It allows at least two repetitions of each read, whatever the error
 * is.
 */
const RETRY_POLICY: RetryPolicy = {
  minBackoffMs: 50,
  maxBackoffMs: 500,
  retryRead: (_, failures, isSafe) => isSafe || failures < 3,
};

/** The settings with which a history creates its clients. */
interface Settings {
  readonly calls: Calls;
  readonly plan: ClientPlan | undefined;
  readonly maxInFlight: number | undefined;
  readonly balance: Balance;
  transportOf(process: Process): TransportFactory;
}

/** The clients of a history. */
export class Clients {
  readonly #world: World;
  readonly #cluster: SimulatedCluster;
  readonly #settings: Settings;
  readonly #clients: SimulatedClient[] = [];
  /** The calls and streams on the diagnostics channel that have not ended. */
  readonly #open = new Set<CallDiagnostics>();
  readonly #ended = new Set<CallDiagnostics>();
  #twice = 0;

  constructor(world: World, cluster: SimulatedCluster, settings: Settings) {
    this.#world = world;
    this.#cluster = cluster;
    this.#settings = settings;
  }

  /** Opens a client in a process, with the member at `first` as its first endpoint. */
  open(process: Process, first: number, options: Partial<ClientOptions>): Client {
    const urls = this.#cluster.members.map(({ url }) => url);
    const { calls, plan, maxInFlight, balance, transportOf } = this.#settings;
    const { hasRetryPolicy = false, syncMs, ordersReads, movesMs, retriesWrites } = plan ?? {};
    const client: SimulatedClient = new SimulatedClient(process, {
      endpoints: [...urls.slice(first), ...urls.slice(0, first)],
      transport: transportOf(process),
      maxInFlight,
      balance,
      orderedReads: ordersReads,
      retryWrites: retriesWrites,
      // Without a logger, clients that no member answers print warnings.
      logger: { warn: () => {} },
      ...(this.#cluster.traits.hasAuth && { auth: ROOT }),
      ...(syncMs !== undefined && { autoSyncIntervalMs: syncMs }),
      ...options,
      interceptors: [
        calls.interceptor(process, () => client.isClosed),
        ...(hasRetryPolicy ? [retryPolicy(RETRY_POLICY)] : []),
      ],
    });
    this.#clients.push(client);
    if (movesMs !== undefined)
      this.#world.at(this.#world.time + movesMs, process, 'moves its endpoints', '', () => {
        if (!client.isClosed) client.setEndpoints(client.endpoints.toReversed());
      });
    return client;
  }

  /** Closes the clients of a process. */
  async close(process: Process): Promise<void> {
    await Promise.all(this.#clients.filter(({ owner }) => owner === process).map((client) => client.close()));
  }

  /** Starts recording the calls on the diagnostics channel. Returns a function that stops the recording. */
  record(): () => void {
    if (this.#settings.plan === undefined) return () => {};
    const onStart = (call: unknown): void => void this.#open.add(call as CallDiagnostics);
    const onEnd = (call: unknown): void => {
      if (this.#ended.has(call as CallDiagnostics)) this.#twice += 1;
      this.#ended.add(call as CallDiagnostics);
      this.#open.delete(call as CallDiagnostics);
    };
    subscribe('etcdwire:call:start', onStart);
    subscribe('etcdwire:call:end', onEnd);
    return () => {
      unsubscribe('etcdwire:call:start', onStart);
      unsubscribe('etcdwire:call:end', onEnd);
    };
  }

  /** Reports the calls, streams and watches that are still open although all clients are closed. */
  checkLeft(violated: (rule: string, detail: string) => void): void {
    for (const { owner, open } of this.#clients) {
      if (owner.isKilled) continue;
      const { calls, streams, watches } = open;
      for (const [path, count] of calls) if (count > 0) violated('call left', `${count} of ${path} of ${owner.name}`);
      for (const [path, count] of streams)
        if (count > 0) violated('stream left', `${count} of ${path} of ${owner.name}`);
      if (watches > 0) violated('watch left', `${watches} of ${owner.name}`);
    }
    if (this.#twice > 0) violated('ended twice', `${this.#twice} calls on the diagnostics channel`);
    if (this.#open.size > 0 && this.#clients.every(({ owner }) => !owner.isKilled))
      violated('call left', `${[...this.#open].map(({ method }) => method).join()} on the diagnostics channel`);
  }
}

/** A client that knows its process, and whether the program has closed it. */
class SimulatedClient extends Client {
  readonly owner: Process;
  readonly open: OpenCalls;
  isClosed = false;

  constructor(owner: Process, options: ClientOptions & { readonly interceptors: readonly Interceptor[] }) {
    const open = new OpenCalls();
    super({ ...options, interceptors: [...options.interceptors, open] });
    this.owner = owner;
    this.open = open;
  }

  override close(): Promise<void> {
    this.isClosed = true;
    return super.close();
  }
}
