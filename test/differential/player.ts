import { pause } from '../../src/base/timers.js';
import { serverError } from '../../src/testing/memory/service.js';
import { Access } from './access.js';
import { rpc } from './methods.js';
import { type Normal, Normalizer, UNORDERED_IN_CLUSTER } from './normalize.js';
import { reset } from './reset.js';
import { latin1, learnRevision, resolve, resolveInteger, type Symbols } from './resolve.js';
import { type CallStep, type ExpireStep, type KeepAliveStep, type ObserveStep, type Step, streamKey } from './step.js';
import type { Message, OpenStream, Outcome, Server } from './target.js';
import { Observer, type ReadKeys, WaitingCall } from './waiting.js';
import { RESPONSE_LIMIT_MS, SENTINEL_KEY } from './watch-stream.js';
import { Watches } from './watches.js';

const POLL_MS = 50;
/** Longer than the interval of 100 ms at which etcd looks for watches that have to catch up. */
const CATCH_UP_MS = 250;
const REQUIRE_LEADER = { hasleader: 'true' };

/** The text of a time limit. etcd adds what may have caused it, which depends on the timing of an election. */
const TIMEOUT = /^(etcdserver: request timed out), possibly due to .*/;

/** Plays the steps of one sequence at one server, or at the members of a cluster. */
export class Player {
  readonly #symbols: Symbols = {
    base: 0n,
    current: 0n,
    compacted: 0n,
    leases: [],
    members: [],
    lockKeys: [],
    leaders: [],
  };
  readonly access: Access;
  readonly #normalizer: Normalizer;
  readonly #watches: Watches;
  readonly #keepAlives = new Map<
    string,
    { readonly stream: OpenStream; readonly position: number; wake: () => void }
  >();
  readonly #waiting: WaitingCall[] = [];
  readonly #observers: Observer[] = [];
  readonly #learnerUrls: string[] = [];

  constructor(servers: readonly Server[]) {
    this.access = new Access(servers);
    this.#normalizer = new Normalizer(this.#symbols, servers.length > 1 ? UNORDERED_IN_CLUSTER : undefined);
    this.#watches = new Watches(this.access, this.#symbols, this.#normalizer);
  }

  /** Removes the state that earlier sequences have left, and learns the revision at the start. */
  async start(): Promise<void> {
    const { header, members, authRevision } = await reset(this.access.servers[0] as Server);
    Object.assign(this.#symbols, { base: header.revision, current: header.revision, compacted: header.revision });
    this.#normalizer.authBase = authRevision;
    for (const position of this.access.servers.keys()) {
      const { messages } = await this.access.callAsRoot('maintenance.status', {}, position);
      const { memberId } = (messages[0] as Message).header as { readonly memberId: bigint };
      const own = members.find(({ id }) => id === memberId) as (typeof members)[number];
      const name = (text: string): string => (position === 0 ? text : `${text} of member ${position}`);
      this.#normalizer.name('member', memberId);
      this.#symbols.members.push(memberId);
      this.#normalizer.ownTexts.set(own.name, name('own name'));
      for (const url of own.peerUrls) this.#normalizer.ownTexts.set(url, name('$peerUrl'));
      for (const url of own.clientUrls) this.#normalizer.ownTexts.set(url, name('own client URL'));
    }
  }

  /** Plays a step. Resolves with all responses that the server has sent because of the step, in normal form. */
  async play(step: Step): Promise<Normal> {
    // A member answers from its own state, so it first applies the writes of earlier steps.
    if (step.at !== undefined && !this.access.isLost(step))
      await this.access.callAsRoot('kv.range', { key: latin1(SENTINEL_KEY) }, step.at);
    const answer = await this.#answer(step);
    const settled = await this.settle();
    if ('watch' in step && step.watch === 'progress') answer.progress = this.#watches.progressOf(step);
    return { ...answer, ...settled };
  }

  /** Resolves with the responses that the server has sent because of earlier steps. */
  async settle(): Promise<{ readonly [property: string]: Normal }> {
    const ended = await this.#settleCalls();
    const watches = await this.#watches.settle();
    const observed = await this.#settleObservers();
    return { ...ended, ...watches, ...observed };
  }

  /** Ends all streams, or those of watches and leases at one server. */
  close(at?: number): void {
    this.#watches.close(at);
    for (const [key, { stream, position }] of this.#keepAlives) {
      if (at !== undefined && position !== at) continue;
      stream.outgoing.cancel();
      this.#keepAlives.delete(key);
    }
    if (at === undefined) for (const observer of this.#observers) observer.close();
  }

  /** Ends the calls that wait. */
  async finish(): Promise<void> {
    if (this.#waiting.every(({ outcome }) => outcome !== undefined)) return;
    // The waiting calls end when their leases and all keys are gone.
    const server = this.access.serverOf({}, 'kv');
    for (const service of ['lease', 'auth']) server.called.add(service);
    await reset(server);
    const deadline = performance.now() + RESPONSE_LIMIT_MS;
    while (this.#waiting.some(({ outcome }) => outcome === undefined) && performance.now() < deadline) await pause(1);
  }

  async #answer(step: Step): Promise<Record<string, Normal>> {
    if ('rpc' in step) return this.#call(step);
    if ('watch' in step) return this.#watches.play(step);
    if ('keepAlive' in step) return this.#keepAlive(step);
    if ('observe' in step) return this.#observe(step);
    return this.#expire(step);
  }

  async #call(step: CallStep): Promise<Record<string, Normal>> {
    const { connection } = this.access.serverOf(step, step.rpc.slice(0, step.rpc.indexOf('.')));
    const {
      kind,
      request: { typeName },
    } = rpc(step.rpc);
    const request = resolve(typeName, this.#withUrls(step.request), this.#symbols);
    const token = this.access.tokenOf(step);
    const metadata = step.requiresLeader ? REQUIRE_LEADER : {};
    const unary = (): Promise<Outcome> => connection.unary(step.rpc, request, token, metadata);
    if (step.rpc === 'kv.compact') await this.#catchUp();
    const mayWait = step.rpc === 'lock.lock' || step.rpc === 'election.campaign';
    if (mayWait && !this.access.isLost(step)) return this.#callThatWaits(step.rpc, request, unary);
    if (kind === 'unary') return this.#report(step, request, await unary());
    return this.#report(step, request, await connection.collect(step.rpc, request, token));
  }

  async #callThatWaits(name: string, request: Message, call: () => Promise<Outcome>): Promise<Record<string, Normal>> {
    const of = {
      name: Buffer.from((request.name ?? '') as Uint8Array).toString('latin1'),
      lease: (request.lease ?? 0n) as bigint,
    };
    this.#waiting.push(await WaitingCall.start(name, of, this.#readKeys, call));
    return {};
  }

  #report(step: CallStep, request: Message, outcome: Outcome): Record<string, Normal> {
    const [message] = outcome.messages;
    if (message !== undefined) this.#learn(step.rpc, request, message);
    if (step.rpc === 'maintenance.snapshot') return this.#reportSnapshot(outcome);
    return this.#normal(step.rpc, outcome);
  }

  #normal(name: string, { messages, error }: Outcome): Record<string, Normal> {
    const { kind, response } = rpc(name);
    const normal = messages.map((message) => this.#normalizer.message(response.typeName, message));
    return {
      ...(kind === 'unary' && normal.length === 1 ? { response: normal[0] as Normal } : { responses: normal }),
      ...(error === undefined ? {} : { error: this.#error(error) }),
    };
  }

  /**
   * etcd derives the ID of a new member from its URL and the current second. If a URL is added twice within one second, etcd
   * reports `MemberExist` instead of `PeerURLExist`.
   */
  #error({
    code,
    problem,
    reason,
  }: {
    readonly code: string;
    readonly problem: string;
    readonly reason: string;
  }): Normal {
    if (TIMEOUT.test(problem)) return { code, text: problem.replace(TIMEOUT, '$1'), reason: 'Timeout' };
    if (reason === 'MemberExist') return { code, text: serverError('PeerURLExist').message, reason: 'PeerURLExist' };
    return { code, text: problem, reason };
  }

  /** Describes a snapshot without its bytes, which differ from server to server. */
  #reportSnapshot({ messages, error }: Outcome): Record<string, Normal> {
    const total = messages.reduce((sum, { blob }) => sum + (blob as Uint8Array).length, 0);
    const last = messages.at(-1);
    return {
      headers: messages.slice(0, 1).map((message) =>
        this.#normalizer.message('etcdserverpb.SnapshotResponse', {
          ...message,
          blob: undefined,
          remainingBytes: undefined,
        }),
      ),
      hasHash: total > 0 && total % 512 === 32,
      remaining: String(last?.remainingBytes ?? 'none'),
      ...(error === undefined ? {} : { error: this.#error(error) }),
    };
  }

  /** Remembers the IDs and revisions of a response, for later steps. */
  #learn(name: string, request: Message, message: Message): void {
    learnRevision(this.#symbols, message);
    this.access.learn(name, request, message);
    if (name === 'kv.compact') this.#symbols.compacted = request.revision as bigint;
    if (name === 'lease.leaseGrant' && (request.id ?? 0n) === 0n) this.#symbols.leases.push(message.id as bigint);
    if (name === 'cluster.memberAdd') this.#symbols.members.push((message.member as { id: bigint }).id);
    if (name === 'lock.lock') this.#symbols.lockKeys.push(message.key as Uint8Array);
    if (name === 'election.campaign') this.#symbols.leaders.push(message.leader);
  }

  async #keepAlive(step: KeepAliveStep): Promise<Record<string, Normal>> {
    const { connection } = this.access.serverOf(step, 'lease');
    const key = streamKey(step);
    let open = this.#keepAlives.get(key);
    if (open === undefined || open.stream.ended) {
      const created = {
        stream: connection.open('lease.leaseKeepAlive', this.access.tokenOf(step), () => created.wake()),
        position: step.at ?? 0,
        wake: () => {},
      };
      open = created;
      this.#keepAlives.set(key, open);
    }
    const { stream } = open;
    const before = stream.messages.length;
    stream.outgoing.send({ id: resolveInteger(step.keepAlive, this.#symbols) });
    const deadline = performance.now() + RESPONSE_LIMIT_MS;
    while (stream.messages.length === before && !stream.ended && performance.now() < deadline) {
      const stop = new AbortController();
      open.wake = () => stop.abort();
      await pause(deadline - performance.now(), stop.signal);
    }
    return this.#normal('lease.leaseKeepAlive', { messages: stream.messages.slice(before), error: stream.error });
  }

  async #observe(step: ObserveStep): Promise<Record<string, Normal>> {
    const { observe } = step;
    const { connection } = this.access.serverOf(step, 'election');
    const token = this.access.tokenOf(step);
    const stream = connection.open('election.observe', token, () => {});
    stream.outgoing.send({ name: latin1(observe) });
    stream.outgoing.end();
    const observer = new Observer(observe, stream, this.#readKeys);
    this.#observers.push(observer);
    const { error } = await connection.unary(
      'kv.range',
      { key: latin1(`${observe}/`), rangeEnd: latin1(`${observe}0`) },
      token,
    );
    if (error !== undefined) await observer.untilEnded();
    return {};
  }

  async #settleCalls(): Promise<Record<string, Normal>> {
    const ended: Record<string, Normal> = {};
    // The end of a call may let an earlier call continue.
    while (await this.#endCalls(ended));
    return Object.keys(ended).length === 0 ? {} : { ended };
  }

  /** Adds the calls that have ended to `ended`. Resolves with whether there were any. */
  async #endCalls(ended: Record<string, Normal>): Promise<boolean> {
    let hasEnded = false;
    for (const [index, call] of this.#waiting.entries()) {
      if (call.reported) continue;
      await call.settle();
      const { outcome } = call;
      if (outcome === undefined) continue;
      call.reported = true;
      hasEnded = true;
      for (const message of outcome.messages) this.#learn(call.rpc, {}, message);
      ended[`${call.rpc} ${index}`] = this.#normal(call.rpc, outcome);
    }
    return hasEnded;
  }

  async #settleObservers(): Promise<Record<string, Normal>> {
    const observed: Record<string, Normal> = {};
    for (const [index, observer] of this.#observers.entries()) {
      await observer.settle();
      const leaders = observer.take(this.#normalizer);
      if (leaders !== undefined) observed[String(index)] = leaders;
    }
    return Object.keys(observed).length === 0 ? {} : { observed };
  }

  async #expire({ expire }: ExpireStep): Promise<Record<string, Normal>> {
    const request = { id: resolveInteger(expire, this.#symbols) };
    const deadline = performance.now() + RESPONSE_LIMIT_MS;
    for (;;) {
      const outcome = await this.access.callAsRoot('lease.leaseTimeToLive', request);
      const [message] = outcome.messages;
      const granted = (message?.grantedTtl ?? 0n) as bigint;
      const isOver = message === undefined || granted === 0n || granted > LONGEST_EXPIRING_TTL_S;
      if (isOver || performance.now() > deadline) return this.#normal('lease.leaseTimeToLive', outcome);
      await pause(POLL_MS);
    }
  }

  /**
   * Waits until the watches that etcd itself has opened for waiting calls and observers have caught up. Otherwise, a
   * compaction would end them.
   */
  async #catchUp(): Promise<void> {
    const isWaiting = this.#waiting.some(({ outcome }) => outcome === undefined);
    if (isWaiting || this.#observers.length > 0) await pause(CATCH_UP_MS);
  }

  readonly #readKeys: ReadKeys = async (request) => {
    const { messages } = await this.access.callAsRoot('kv.range', request);
    return (messages[0]?.kvs ?? []) as Awaited<ReturnType<ReadKeys>>;
  };

  /** Replaces "$new", "$last" and "$peerUrl" by the peer URLs for which they stand. */
  #withUrls(fields: CallStep['request']): CallStep['request'] {
    const { peerUrls } = fields as { peerUrls?: string[] };
    return peerUrls === undefined ? fields : { ...fields, peerUrls: peerUrls.map((url) => this.#resolveUrl(url)) };
  }

  #resolveUrl(url: string): string {
    const names = this.#normalizer.ownTexts;
    if (url === '$peerUrl') return [...names].find(([, name]) => name === url)?.[0] ?? url;
    const last = this.#learnerUrls.at(-1);
    if (url === '$last' && last !== undefined) return last;
    if (url !== '$new' && url !== '$last') return url;
    learners += 1;
    const fresh = `http://127.1.${learners >> 8}.${learners & 0xff}:1`;
    this.#learnerUrls.push(fresh);
    names.set(fresh, `learner URL #${this.#learnerUrls.length}`);
    return fresh;
  }
}

/** The number of URLs of learners that this process has used. */
let learners = 0;

/** The longest TTL in seconds of a lease whose expiry an `ExpireStep` waits for. */
const LONGEST_EXPIRING_TTL_S = 2n;
