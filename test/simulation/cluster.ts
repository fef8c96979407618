import { textOf, toBytes } from '../../src/base/bytes.js';
import type { ServerReason } from '../../src/base/status.js';
import type { Member, RangeRequest, TxnRequest, WatchRequest, WatchResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { EventType } from '../../src/gen/mvccpb/kv.js';
import type { SeenEvent } from '../../src/testing/checks/history.js';
import type { Commit } from '../../src/testing/memory/change.js';
import { REQUEST_TIMEOUT_MS } from '../../src/testing/memory/consensus.js';
import { MemoryEtcd, type MemoryEtcdOptions } from '../../src/testing/memory/memory-etcd.js';
import {
  type RequestSink,
  type ResponseStream,
  type ServerCall,
  StatusError,
  serverError,
  streamingRoute,
  unaryRoute,
} from '../../src/testing/memory/service.js';
import { decode } from '../../src/wire/protobuf/reader.js';
import type { Method } from '../../src/wire/protobuf/schema.js';
import { encode, type Init } from '../../src/wire/protobuf/writer.js';
import type { Calls } from './calls.js';
import type { Fault, FaultKind } from './faults.js';
import { SimulatedMember } from './member.js';
import { serverClock } from './server-clock.js';
import { beginStale, isStaleTxn, staleRange, staleTxn } from './stale-reads.js';
import { type ClusterTraits, OLD_VERSION, PLAIN_CLUSTER, ROOT } from './traits.js';
import { WatchOutbox } from './watch-outbox.js';
import type { World } from './world.js';

/** How long a token is valid without use, in seconds. */
const TOKEN_TTL_S = 3;

/** A change in the store, with the time when the store made it. */
export interface TrueEvent extends SeenEvent {
  readonly ms: number;
  readonly lease: bigint;
  readonly createRevision: bigint;
}

/** The call with which the simulation itself changes a store. */
const COMPACTION: ServerCall = { metadata: {}, endpoint: '', signal: new AbortController().signal };

/** A cluster of members with one store, in memory. */
export class SimulatedCluster {
  readonly server: MemoryEtcd;
  readonly members: readonly SimulatedMember[];
  /** Every change of the store, in order. */
  readonly truth: TrueEvent[] = [];
  /** The histories that backups have replaced, oldest first, and the present one. Each is complete. */
  readonly histories: TrueEvent[][] = [[]];
  /** The number of requests of each method that the cluster has received. */
  readonly received = new Map<string, number>();
  /** Judges the calls of the clients. Undefined if the history does not judge calls. */
  calls: Calls | undefined;
  /** Whether the cluster refuses all calls except ranges, because too many requests wait. */
  isOverloaded = false;
  /** Whether the cluster has no leader, because it is electing one. */
  isWithoutLeader = false;
  readonly traits: ClusterTraits;
  readonly #world: World;
  readonly #options: MemoryEtcdOptions;
  readonly #listeners = new Set<(event: TrueEvent) => void>();

  /** `options` are further options of the server. */
  constructor(
    world: World,
    members: number,
    traits: ClusterTraits = PLAIN_CLUSTER,
    options: Pick<MemoryEtcdOptions, 'members'> = {},
  ) {
    this.traits = traits;
    this.#world = world;
    this.#options = {
      tokenTtlSeconds: TOKEN_TTL_S,
      clock: serverClock(world, 'of the server'),
      random: () => world.random.fraction(),
      ...options,
    };
    this.server = new MemoryEtcd(this.#options);
    this.members = Array.from({ length: members }, (_, index) => new SimulatedMember(`http://member-${index}:2379`));
    for (const { state } of this.server.members) state.store.onCommit((commit) => this.committed(commit));
    const last = this.members.at(-1);
    if (traits.hasLearner && last !== undefined && members > 1) last.isLearner = true;
    if (traits.hasAuth) this.#enableAuth();
  }

  /** Records a commit of a store. */
  protected committed({ revision, changes }: Commit): void {
    for (const { type, kv } of changes) {
      const event: TrueEvent = {
        revision,
        type: type === EventType.PUT ? 'put' : 'delete',
        key: textOf(kv.key),
        value: textOf(kv.value),
        ms: this.#world.now,
        lease: kv.lease,
        createRevision: kv.createRevision,
      };
      this.truth.push(event);
      this.histories.at(-1)?.push(event);
      this.#world.note(`${event.type} of ${event.key} = "${event.value}" at revision ${revision}`);
      for (const listener of this.#listeners) listener(event);
    }
  }

  #enableAuth(): void {
    const { auth } = methods;
    const { username: name, password } = ROOT;
    this.#call(auth.userAdd, { name, password });
    this.#call(auth.roleAdd, { name: 'root' });
    this.#call(auth.userGrantRole, { user: name, role: 'root' });
    this.#call(auth.authEnable, {});
  }

  /** Makes a call of the simulation itself. */
  #call<Request, Response>(method: Method<Request, Response>, request: Init<Request>, metadata = {}): Response {
    const whole = decode(method.request, encode(method.request, request));
    return unaryRoute(this.server.first, method.path).unary(whole, { ...COMPACTION, metadata }) as Response;
  }

  get revision(): bigint {
    return this.server.revision;
  }

  memberAt(url: string): SimulatedMember {
    const member = this.members.find((each) => each.url === url);
    if (member === undefined) throw new Error(`no member has the URL ${url}`);
    return member;
  }

  /** Calls `listener` with each change of the store. */
  onEvent(listener: (event: TrueEvent) => void): void {
    this.#listeners.add(listener);
  }

  /** Makes a backup of the store, and returns a function that replaces the store by the backup. */
  backup(): () => void {
    const bytes = this.server.snapshot();
    const history = [...this.history];
    return () => {
      for (const each of this.members) each.thaw();
      this.server.restore(bytes);
      this.#world.note(`the store goes back to revision ${this.revision}`);
      this.histories.push(history);
    };
  }

  /** The events that have led to the present state of the store. */
  get history(): readonly TrueEvent[] {
    return this.histories.at(-1) ?? [];
  }

  /** Serves a unary call at a member. @throws StatusError if the member refuses the call. */
  unary<Request, Response>(
    member: SimulatedMember,
    method: Method<Request, Response>,
    bytes: Uint8Array,
    call: ServerCall,
  ): Uint8Array | Promise<Uint8Array> {
    this.received.set(method.path, (this.received.get(method.path) ?? 0) + 1);
    const { calls } = this;
    if (calls === undefined) return this.#serve(member, method, bytes, call);
    calls.received(call.metadata);
    const before = this.revision;
    try {
      const answer = this.#serve(member, method, bytes, call);
      if (!(answer instanceof Promise)) return answer;
      return answer.catch((error: unknown) => {
        if (error instanceof StatusError) calls.refused(call.metadata, error);
        throw error;
      });
    } catch (error) {
      if (error instanceof StatusError) calls.refused(call.metadata, error);
      throw error;
    } finally {
      if (this.revision > before) calls.applied(call.metadata, this.revision);
    }
  }

  #serve<Request, Response>(
    member: SimulatedMember,
    method: Method<Request, Response>,
    bytes: Uint8Array,
    call: ServerCall,
  ): Uint8Array | Promise<Uint8Array> {
    const request = decode(method.request, bytes);
    if (member.isLearner) throw serverError('NotSupportedForLearner');
    if (member.foreign !== undefined) {
      const { method: served, unary } = unaryRoute(member.foreign.first, method.path);
      return encode(served.response, unary(request, call) as Init<unknown>);
    }
    if (method.path === methods.kv.range.path && (request as RangeRequest).serializable)
      return encode(methods.kv.range.response, staleRange(this.server, member.frozenAt, request as RangeRequest, call));
    if (isStaleTxn(method, request))
      return encode(methods.kv.txn.response, staleTxn(this.server, member.frozenAt, request as TxnRequest, call));
    const hasLeader = member.knowsLeader && !this.isWithoutLeader;
    if (!hasLeader && call.metadata.hasleader !== undefined) throw serverError('NoLeader');
    if (!hasLeader || member.isOldLeader) return this.#timeOut();
    const isSlow = member.answersAt > this.#world.now;
    if (isSlow && method.path === methods.kv.range.path) throw serverError('TimeoutWaitAppliedIndex');
    if (this.isOverloaded && method.path !== methods.kv.range.path) throw serverError('RequestTooManyRequests');
    const route = unaryRoute(this.server.first, method.path);
    const isOldStatus = this.traits.progressOvertakes && method.path === methods.maintenance.status.path;
    const isMemberList = method.path === methods.cluster.memberList.path;
    const encoded = (message: unknown): Uint8Array =>
      encode(route.method.response, {
        ...(message as Init<unknown>),
        ...(isOldStatus && { version: OLD_VERSION }),
        ...(isMemberList && { members: this.memberList() }),
      });
    const answer = route.unary(request, call);
    if (isSlow) return this.#whenApplied(member, async () => encoded(await answer));
    // A linearizable response proves that the member has applied everything before it.
    member.catchUp(this.revision);
    return answer instanceof Promise ? answer.then(encoded) : encoded(answer);
  }

  /** Refuses a call when etcd's time limit has passed. */
  #timeOut(): Promise<never> {
    const { now, outside } = this.#world;
    return new Promise((_, reject) => {
      const refuse = (): void => reject(serverError('Timeout'));
      this.#world.at(now + REQUEST_TIMEOUT_MS, outside, 'answers', 'late', refuse);
    });
  }

  /** Answers a write when a slow member has applied it: at `answersAt`, or when the fault ends, if that is earlier. */
  #whenApplied(member: SimulatedMember, answer: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const { unapplied, answersAt } = member;
    return new Promise((resolve, reject) => {
      const give = (): void => {
        cancel();
        unapplied.delete(give);
        void answer().then(resolve, reject);
      };
      const cancel = this.#world.at(answersAt, this.#world.outside, 'answers', 'late', give);
      unapplied.add(give);
    });
  }

  protected memberList(): Init<Member>[] {
    return this.members.map(({ url, isLearner }, index) => ({
      id: BigInt(index + 1),
      name: `member-${index}`,
      clientUrls: [url],
      isLearner,
    }));
  }

  /** Serves a streaming call at a member. */
  stream<Request, Response>(
    member: SimulatedMember,
    method: Method<Request, Response>,
    responses: ResponseStream<Response>,
    call: ServerCall,
  ): RequestSink<Request> {
    this.received.set(method.path, (this.received.get(method.path) ?? 0) + 1);
    const refuse = (reason: ServerReason): RequestSink<Request> => {
      responses.end(serverError(reason));
      return { message: () => {}, halfClosed: () => {}, canceled: () => {} };
    };
    if (member.isLearner) return refuse('NotSupportedForLearner');
    const needsLeader = call.metadata.hasleader !== undefined;
    if (needsLeader && !(member.knowsLeader && !this.isWithoutLeader)) return refuse('NoLeader');
    const route = streamingRoute((member.foreign ?? this.server).first, method.path);
    const isWatch = method.path === methods.watch.watch.path;
    const outbox = new WatchOutbox(this.#world, this.traits, (message) => responses.send(message as Init<Response>));
    const send: ResponseStream<Response>['send'] = (message) =>
      isWatch ? outbox.response(message as Init<WatchResponse>) : responses.send(message);
    const ended = (): void => {
      member.leaderStreams.delete(own as ResponseStream<unknown>);
      member.streams.delete(own as ResponseStream<unknown>);
    };
    const own: ResponseStream<Response> = {
      send: (message) => {
        const { frozenAt, held } = member;
        if (!isWatch || frozenAt === undefined) return send(message);
        const response = message as Init<WatchResponse>;
        const { header, created, events = [] } = response;
        const revision = header?.revision ?? 0n;
        // A member that lags behind answers a create request at once, but reports the revision that it has applied.
        if (created) send({ ...response, header: { ...header, revision: frozenAt } } as Init<Response>);
        else if (held.length === 0 && (revision <= frozenAt || events.length === 0)) send(message);
        else held.push({ revision, send: () => send(message) });
      },
      end: (error) => {
        ended();
        responses.end(error);
      },
    };
    if (needsLeader) member.leaderStreams.add(own as ResponseStream<unknown>);
    member.streams.add(own as ResponseStream<unknown>);
    const sink = route.streaming(own as ResponseStream<unknown>, call) as RequestSink<Request>;
    return {
      message: (given) => {
        const request = isWatch ? (outbox.request(given as WatchRequest) as Request | undefined) : given;
        if (request === undefined) return;
        if (member.isIsolated && method.path === methods.lease.leaseKeepAlive.path) return;
        if (isWatch && member.frozenAt !== undefined) beginStale(request as WatchRequest, member.frozenAt);
        sink.message(request);
      },
      halfClosed: () => sink.halfClosed(),
      canceled: () => {
        ended();
        sink.canceled();
      },
    };
  }

  /** Returns the fault that this cluster makes of a fault, and the member that the fault concerns. */
  adapt({ kind }: Fault, member: SimulatedMember): { readonly kind: FaultKind; readonly member: SimulatedMember } {
    return { kind, member };
  }

  /** Stops a member. */
  stop(member: SimulatedMember): void {
    member.isDown = true;
  }

  /** Starts a member that was stopped. */
  start(member: SimulatedMember): void {
    member.isDown = false;
  }

  /** Stops all members. */
  stopAll(): void {
    this.server.stop();
    for (const each of this.members) each.isDown = true;
  }

  /** Ends the effect of `stopAll` for these members. */
  startAll(members: readonly SimulatedMember[]): void {
    this.server.start();
    for (const each of members) each.isDown = false;
  }

  /** Cuts a member off from the other members. */
  isolate(member: SimulatedMember): void {
    member.isIsolated = true;
    member.freeze(this.revision);
    member.endLeaderStreams();
  }

  /** Connects an isolated member with the other members. */
  rejoin(member: SimulatedMember): void {
    member.isIsolated = false;
    member.thaw();
  }

  /** Makes the cluster lose its leader until `regainLeader`. */
  loseLeader(): void {
    this.isWithoutLeader = true;
    for (const each of this.members) each.endLeaderStreams();
  }

  regainLeader(): void {
    this.isWithoutLeader = false;
  }

  /** Called when all faults end. */
  heal(): void {}

  /** Lets a server of another cluster answer at the member's address. */
  replace(member: SimulatedMember): void {
    member.thaw();
    member.foreign = new MemoryEtcd(this.#options);
    const { unary } = unaryRoute(member.foreign.first, methods.kv.put.path);
    const put = { ...decode(methods.kv.put.request, new Uint8Array(0)), key: toBytes('k/foreign', 'key') };
    for (let puts = 0; puts < 50; puts += 1) void unary({ ...put, value: toBytes('foreign', 'value') }, COMPACTION);
  }

  /** Puts a key many times, as another client does. */
  putOften(key: string, puts: number): void {
    const credentials = this.#credentials();
    for (let put = 0; put < puts; put += 1)
      this.#call(methods.kv.put, { key: toBytes(key, 'key'), value: toBytes(String(put), 'value') }, credentials);
  }

  /** Compacts the history up to `back` revisions before the latest one. */
  compact(back: bigint): void {
    const { store } = this.server.member;
    const revision = store.revision - back;
    if (revision <= store.compacted || revision < 1n) return;
    for (const member of this.members) member.catchUp(revision);
    this.#call(methods.kv.compact, { revision }, this.#credentials());
  }

  /** Returns the metadata with which the simulation itself may call the cluster. */
  #credentials(): ServerCall['metadata'] {
    if (!this.traits.hasAuth) return {};
    const { username: name, password } = ROOT;
    return { token: this.#call(methods.auth.authenticate, { name, password }).token };
  }
}
