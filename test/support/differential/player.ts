import { pause } from '../../../src/runtime/timers.js';
import { rpc } from './methods.js';
import { type Normal, Normalizer } from './normalize.js';
import { ROOT, reset } from './reset.js';
import { latin1, resolve, resolveInteger, type Symbols } from './resolve.js';
import type { CallStep, ExpireStep, KeepAliveStep, ObserveStep, Step, WatchStep } from './step.js';
import type { Message, OpenStream, Outcome, Server } from './target.js';
import { Observer, type ReadKeys, WaitingCall } from './waiting.js';
import { RESPONSE_LIMIT_MS, SENTINEL_KEY, type WatchKind, WatchStream } from './watching.js';

/** A token that no server has issued. */
const FOREIGN_TOKEN = 'abcdefghijklmnop.7';
/** The user of a step that carries `FOREIGN_TOKEN`. */
const FOREIGN_USER = '?';
const POLL_MS = 50;
/** Longer than the interval of 100 ms at which etcd looks for watches that have to catch up. */
const CATCH_UP_MS = 250;

/** Plays the steps of one sequence at one server. */
export class Player {
  readonly #server: Server;
  readonly #symbols: Symbols = {
    base: 0n,
    current: 0n,
    compacted: 0n,
    leases: [],
    members: [],
    lockKeys: [],
    leaders: [],
  };
  readonly #normalizer = new Normalizer(this.#symbols);
  /** The last token of each user. */
  readonly #tokens = new Map<string, string>();
  /** The token of root that this class uses for its own calls. Undefined if authentication is off. */
  #rootToken: string | undefined;
  readonly #watchStreams = new Map<string, WatchStream>();
  /** The puts of the sentinel key since each stream was opened. */
  readonly #sentinels = new Map<WatchStream, number>();
  readonly #keepAlives = new Map<string, { readonly stream: OpenStream; wake: () => void }>();
  readonly #waiting: WaitingCall[] = [];
  readonly #observers: Observer[] = [];
  readonly #learnerUrls: string[] = [];

  constructor(server: Server) {
    this.#server = server;
  }

  /** Removes the state that earlier sequences have left, and learns the revision at the start. */
  async start(): Promise<void> {
    const { header, own, authRevision } = await reset(this.#server);
    Object.assign(this.#symbols, { base: header.revision, current: header.revision, compacted: header.revision });
    this.#symbols.members.push(own.id);
    this.#normalizer.authBase = authRevision;
    this.#normalizer.ownTexts.set(own.name, 'own name');
    for (const url of own.peerUrls) this.#normalizer.ownTexts.set(url, '$peerUrl');
    for (const url of own.clientUrls) this.#normalizer.ownTexts.set(url, 'own client URL');
  }

  /** Plays a step. Resolves with all responses that the server has sent because of the step, in normal form. */
  async play(step: Step): Promise<Normal> {
    const answer = await this.#answer(step);
    const ended = await this.#settleCalls();
    const watches = await this.#settleWatches();
    if ('watch' in step && step.watch === 'progress') answer.progress = this.#progressOf(step);
    const observed = await this.#settleObservers();
    return { ...answer, ...ended, ...watches, ...observed };
  }

  /** Ends all streams. */
  close(): void {
    for (const stream of this.#watchStreams.values()) stream.close();
    for (const { stream } of this.#keepAlives.values()) stream.outgoing.cancel();
    for (const observer of this.#observers) observer.close();
  }

  /** Ends the calls that wait. */
  async finish(): Promise<void> {
    if (this.#waiting.every(({ outcome }) => outcome !== undefined)) return;
    // The waiting calls end when their leases and all keys are gone.
    for (const service of ['kv', 'lease', 'auth']) this.#server.called.add(service);
    await reset(this.#server);
    const deadline = performance.now() + RESPONSE_LIMIT_MS;
    while (this.#waiting.some(({ outcome }) => outcome === undefined) && performance.now() < deadline) await pause(1);
  }

  async #answer(step: Step): Promise<Record<string, Normal>> {
    if ('rpc' in step) return this.#call(step);
    if ('watch' in step) return this.#watch(step);
    if ('keepAlive' in step) return this.#keepAlive(step);
    if ('observe' in step) return this.#observe(step);
    return this.#expire(step);
  }

  async #call(step: CallStep): Promise<Record<string, Normal>> {
    const { connection, called } = this.#server;
    called.add(step.rpc.slice(0, step.rpc.indexOf('.')));
    const {
      kind,
      request: { typeName },
    } = rpc(step.rpc);
    const request = resolve(typeName, this.#withUrls(step.request), this.#symbols);
    const token = this.#tokenOf(step.as);
    if (step.rpc === 'kv.compact') await this.#catchUp();
    if (step.rpc === 'lock.lock' || step.rpc === 'election.campaign')
      return this.#callThatWaits(step.rpc, request, () => connection.unary(step.rpc, request, token));
    if (kind === 'unary') return this.#report(step, request, await connection.unary(step.rpc, request, token));
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

  #error({
    code,
    problem,
    reason,
  }: {
    readonly code: string;
    readonly problem: string;
    readonly reason: string;
  }): Normal {
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
    this.#learnRevision(message);
    if (name === 'kv.compact') this.#symbols.compacted = request.revision as bigint;
    if (name === 'lease.leaseGrant' && (request.id ?? 0n) === 0n) this.#symbols.leases.push(message.id as bigint);
    if (name === 'cluster.memberAdd') this.#symbols.members.push((message.member as { id: bigint }).id);
    if (name === 'auth.authenticate') this.#tokens.set(request.name as string, message.token as string);
    if (name === 'auth.authEnable') this.#rootToken = 'unknown';
    if (name === 'auth.authDisable') this.#rootToken = undefined;
    if (name === 'lock.lock') this.#symbols.lockKeys.push(message.key as Uint8Array);
    if (name === 'election.campaign') this.#symbols.leaders.push(message.leader);
  }

  #learnRevision({ header }: Message): void {
    const { revision } = (header ?? { revision: 0n }) as { revision: bigint };
    if (revision > this.#symbols.current) this.#symbols.current = revision;
  }

  async #watch(step: WatchStep): Promise<Record<string, Normal>> {
    const request = resolve(
      step.watch === 'cancel' ? 'etcdserverpb.WatchCancelRequest' : 'etcdserverpb.WatchCreateRequest',
      step.request ?? {},
      this.#symbols,
    );
    if (step.watch === 'create') {
      const stream = await this.#watchStream(step, this.#kindOf(request));
      await stream.create(request);
      return {};
    }
    for (const [key, stream] of this.#streamsOf(step)) {
      if (step.watch === 'cancel' && !stream.ended) await stream.cancel((request.watchId ?? 0n) as bigint);
      if (step.watch !== 'close') continue;
      stream.close();
      this.#watchStreams.delete(key);
    }
    return {};
  }

  #kindOf({ startRevision = 0n }: { startRevision?: bigint }): WatchKind {
    if (startRevision > this.#symbols.current) return 'future';
    return startRevision > 0n && startRevision < this.#symbols.compacted ? 'compacted' : 'current';
  }

  async #watchStream({ stream: index, as }: WatchStep, kind: WatchKind): Promise<WatchStream> {
    const key = `${streamKey(index, as)} ${kind}`;
    const open = this.#watchStreams.get(key);
    if (open !== undefined && !open.ended) return open;
    const { connection, called } = this.#server;
    called.add('watch');
    const stream = new WatchStream(connection, this.#tokenOf(as), kind, this.#normalizer);
    this.#watchStreams.set(key, stream);
    if (kind === 'future') {
      await stream.watchSentinel();
      this.#sentinels.set(stream, 0);
    }
    return stream;
  }

  /** The open streams of a step: up to one of each kind. */
  #streamsOf({ stream, as }: WatchStep): [string, WatchStream][] {
    return [...this.#watchStreams].filter(([key]) => key.startsWith(`${streamKey(stream, as)} `));
  }

  #progressOf(step: WatchStep): Normal {
    return Object.fromEntries(this.#streamsOf(step).map(([key, stream]) => [key, stream.lastProgress]));
  }

  async #settleWatches(): Promise<Record<string, Normal>> {
    const streams = [...this.#watchStreams];
    if (streams.length === 0) return {};
    await this.#updateRevision();
    const settle = (): Promise<unknown> =>
      Promise.all(streams.map(([, stream]) => stream.settle(this.#symbols.current, this.#sentinels.get(stream) ?? 0)));
    await settle();
    // A watch that has not caught up would report the revision of the put, or the revision before it.
    if (streams.some(([, { kind, ended }]) => kind === 'future' && !ended)) {
      await this.#putSentinel();
      await settle();
    }
    const taken: Record<string, Normal> = {};
    for (const [key, stream] of streams) {
      const responses = stream.take();
      if (responses !== undefined) taken[key] = responses;
    }
    return Object.keys(taken).length === 0 ? {} : { watches: taken };
  }

  /** Learns the revision, because steps without a response, such as an expiry, may have changed it. */
  async #updateRevision(): Promise<void> {
    const { messages } = await this.#asRoot('kv.range', { key: latin1(SENTINEL_KEY), serializable: true });
    for (const message of messages) this.#learnRevision(message);
  }

  async #putSentinel(): Promise<void> {
    const { messages, error } = await this.#asRoot('kv.put', { key: latin1(SENTINEL_KEY) });
    if (error !== undefined) return;
    for (const message of messages) this.#learnRevision(message);
    for (const [stream, puts] of this.#sentinels) this.#sentinels.set(stream, puts + 1);
  }

  async #keepAlive({ keepAlive, stream: index, as }: KeepAliveStep): Promise<Record<string, Normal>> {
    const { connection, called } = this.#server;
    called.add('lease');
    const key = streamKey(index, as);
    let open = this.#keepAlives.get(key);
    if (open === undefined || open.stream.ended) {
      const created = {
        stream: connection.open('lease.leaseKeepAlive', this.#tokenOf(as), () => created.wake()),
        wake: () => {},
      };
      open = created;
      this.#keepAlives.set(key, open);
    }
    const { stream } = open;
    const before = stream.messages.length;
    stream.outgoing.send({ id: resolveInteger(keepAlive, this.#symbols) });
    const deadline = performance.now() + RESPONSE_LIMIT_MS;
    while (stream.messages.length === before && !stream.ended && performance.now() < deadline) {
      const stop = new AbortController();
      open.wake = () => stop.abort();
      await pause(deadline - performance.now(), stop.signal);
    }
    return this.#normal('lease.leaseKeepAlive', { messages: stream.messages.slice(before), error: stream.error });
  }

  async #observe({ observe, as }: ObserveStep): Promise<Record<string, Normal>> {
    const { connection, called } = this.#server;
    called.add('election');
    const token = this.#tokenOf(as);
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
    if (error !== undefined) await observer.ends();
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
      const outcome = await this.#asRoot('lease.leaseTimeToLive', request);
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
    const { messages } = await this.#asRoot('kv.range', request);
    return (messages[0]?.kvs ?? []) as Awaited<ReturnType<ReadKeys>>;
  };

  /** Makes a call that is not part of the sequence. */
  async #asRoot(name: string, request: Message): Promise<Outcome> {
    const { connection } = this.#server;
    const outcome = await connection.unary(name, request, this.#rootToken);
    if (this.#rootToken === undefined || outcome.error?.reason !== 'InvalidAuthToken') return outcome;
    const { messages } = await connection.unary('auth.authenticate', ROOT);
    this.#rootToken = (messages[0]?.token ?? 'unknown') as string;
    return connection.unary(name, request, this.#rootToken);
  }

  #tokenOf(as: string | undefined): string | undefined {
    if (as === undefined) return undefined;
    return as === FOREIGN_USER ? FOREIGN_TOKEN : this.#tokens.get(as);
  }

  /** Replaces the symbols of peer URLs. */
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

function streamKey(index: number, as: string | undefined): string {
  return `stream ${index}${as === undefined ? '' : ` of ${as}`}`;
}
