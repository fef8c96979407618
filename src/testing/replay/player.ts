import { eventLoopTurn, invalidInput, monotonicMs, pause } from '../../base/index.js';
import {
  type AnyMethod,
  bigintIn,
  fromJson,
  fromTextOrBase64,
  headerRevision,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  methodByShortPath,
  objectIn,
  objectsIn,
} from '../../extras/transports/json/index.js';
import { Event } from '../../gen/mvccpb/kv.js';
import type { MemoryEtcd } from '../memory/memory-etcd.js';
import { type FieldDifference, MessageComparison, withRevisions } from './compare.js';
import type {
  CallStep,
  EventStep,
  OpenStep,
  RecordedStep,
  Recording,
  ReplayDifference,
  StreamStep,
} from './recording.js';
import { RevisionMap } from './revisions.js';
import { passwordOf, seed, write } from './seed.js';
import { isControl, PlayedStream, WAITING } from './stream.js';
import type { OpenCall, ReplayTarget } from './target.js';
import type { ReplayTime } from './time.js';

/** How long before the end of a stream an event that the recording lacks must have happened to be a difference. */
const TAIL_MS = 500;
/** Name of the RPC in differences of steps that are no calls. */
const NO_RPC = 'etcd';
const POLL_MS = 10;
/** Time limit in milliseconds for a `MemoryEtcd` that has failed to send something in time before. */
const LATE_MS = 50;
/** How long etcd may take to add a key to a queue, or to delete it. */
const QUEUE_MS = 1_000;
/** How long etcd may take to revoke an expired lease, in addition to its TTL. */
const REVOKE_MS = 3_000;

interface Open {
  readonly stream: PlayedStream;
  readonly call: OpenCall;
  /** The keys of the queue in which the call waits. Undefined for other calls. */
  queue?: JsonObject;
}

/** Repeats the steps of a recording at a server, and compares the answers. */
export class Player {
  readonly #recording: Recording;
  readonly #target: ReplayTarget;
  /** The server, if it is a `MemoryEtcd`. */
  readonly #memory: MemoryEtcd | undefined;
  readonly #time: ReplayTime;
  readonly #timeoutMs: number;
  readonly #revisions: RevisionMap;
  readonly #tokens = new Map<string, string>();
  readonly #open = new Map<number, Open>();
  /** Whether the server has failed to send something in time. */
  #isLate = false;
  /** The recorded time of the current step. */
  #ms = 0;
  #step = 0;

  constructor(
    recording: Recording,
    target: ReplayTarget,
    memory: MemoryEtcd | undefined,
    time: ReplayTime,
    timeoutMs: number,
  ) {
    this.#recording = recording;
    this.#target = target;
    this.#memory = memory;
    this.#time = time;
    this.#timeoutMs = timeoutMs;
    this.#revisions = new RevisionMap(memory !== undefined && memory.revision === 1n);
  }

  /** Puts a new `MemoryEtcd` into the state before the recording. */
  async start(): Promise<void> {
    if (this.#memory === undefined || this.#memory.revision !== 1n) return;
    const { before } = this.#recording;
    seed(this.#memory, before);
    for (const [id, ttl] of Object.entries(before.leases ?? {})) this.#time.renewed(String(BigInt(`0x${id}`)), ttl);
    if (before.users !== undefined) await this.#enableAuth(before.users);
  }

  /** Creates users that may do everything, because the recording does not show their permissions. */
  async #enableAuth(users: readonly string[]): Promise<void> {
    const logins = this.#recording.steps.flatMap((step) =>
      'call' in step && step.call === 'Auth/Authenticate' ? [step.request] : [],
    );
    await this.#ask('Auth/RoleAdd', { name: 'root' });
    for (const name of new Set(['root', ...users])) {
      await this.#ask('Auth/UserAdd', { name, password: passwordOf(name, logins) });
      await this.#ask('Auth/UserGrantRole', { user: name, role: 'root' });
    }
    await this.#ask('Auth/AuthEnable', {});
  }

  /** Repeats a step. Resolves with the differences. */
  async play(index: number, step: RecordedStep): Promise<readonly ReplayDifference[]> {
    this.#step = index;
    this.#ms = step.ms;
    await this.#time.reach(step.ms);
    const differences = await this.#play(step);
    // A MemoryEtcd sends its events in microtasks.
    if (this.#memory !== undefined) await eventLoopTurn();
    return differences;
  }

  /** Returns the events that the recording lacks, and ends all streams. */
  end(): readonly ReplayDifference[] {
    const differences = [...this.#open.values()].flatMap(({ stream }) => this.#leftEvents(stream));
    for (const { call } of this.#open.values()) call.cancel();
    this.#open.clear();
    return differences;
  }

  #play(step: RecordedStep): Promise<readonly ReplayDifference[]> {
    if ('call' in step) return this.#call(step);
    if ('open' in step) return this.#openStream(step);
    return 'stream' in step ? this.#onStream(step) : this.#event(step);
  }

  async #call({ call, user, request, answer, error }: CallStep): Promise<readonly ReplayDifference[]> {
    const { answer: replayed, status } = await this.#ask(call, request, user);
    if (answer !== undefined) {
      if (replayed === undefined)
        return [this.#difference(call, { field: 'status', recorded: 'OK', replayed: status })];
      return this.#compare(call, request, answer, replayed);
    }
    if (replayed !== undefined) this.#note(call, request, replayed);
    if (error === undefined || error === status) return [];
    return [this.#difference(call, { field: 'status', recorded: error, replayed: status })];
  }

  #begin(rpc: string, user: string | undefined): Open {
    const stream = new PlayedStream(rpc);
    const token = user === undefined ? undefined : this.#tokens.get(user);
    const call = this.#target.open(methodNamed(rpc), token, {
      message: (message) => stream.receive(message, this.#ms),
      end: (status) => stream.end(status),
    });
    return { stream, call };
  }

  /** Makes a call. Resolves with the answer and the status. */
  async #ask(
    rpc: string,
    request: JsonObject,
    user?: string,
  ): Promise<{ readonly answer: JsonObject | undefined; readonly status: string }> {
    const { stream, call } = this.#begin(rpc, user);
    call.send(withRevisions(request, this.#revisions));
    call.halfClose();
    await this.#until(stream, () => false);
    if (stream.ended === undefined) call.cancel();
    const status = stream.ended ?? this.#noAnswer;
    return { answer: status === 'OK' ? stream.take({}) : undefined, status };
  }

  get #noAnswer(): string {
    return `no answer within ${this.#timeoutMs} ms`;
  }

  /** Waits until `isDone` returns true, or a stream has ended, or the time limit has passed. */
  async #until(stream: PlayedStream, isDone: () => boolean): Promise<void> {
    const isMemory = this.#memory !== undefined;
    await stream.until(isDone, isMemory && this.#isLate ? Math.min(LATE_MS, this.#timeoutMs) : this.#timeoutMs);
    if (!isDone() && stream.ended === undefined) this.#isLate = true;
  }

  #compare(rpc: string, request: JsonObject, recorded: JsonObject, replayed: JsonObject): readonly ReplayDifference[] {
    this.#note(rpc, request, replayed);
    const comparison = new MessageComparison(rpc, this.#revisions, this.#memory !== undefined);
    comparison.compare(recorded, replayed);
    return comparison.differences.map((difference) => this.#difference(rpc, difference));
  }

  /** Takes the tokens and the lifetimes of leases from an answer. */
  #note(rpc: string, request: JsonObject, { token, ID, TTL }: JsonObject): void {
    if (rpc === 'Auth/Authenticate' && token !== undefined) this.#tokens.set(String(request.name), String(token));
    if (rpc === 'Lease/LeaseRevoke') this.#time.revoked(String(request.ID));
    const renews = rpc === 'Lease/LeaseGrant' || rpc === 'Lease/LeaseKeepAlive';
    if (renews && Number(TTL ?? 0) > 0) this.#time.renewed(String(ID), Number(TTL));
  }

  async #openStream({ open: rpc, stream: number, user }: OpenStep): Promise<readonly ReplayDifference[]> {
    this.#open.set(number, this.#begin(rpc, user));
    return [];
  }

  async #onStream({ stream: number, send, receive, end, ended }: StreamStep): Promise<readonly ReplayDifference[]> {
    const open = this.#open.get(number);
    if (open === undefined) throw invalidInput(`steps[${this.#step}].stream`, String(number), 'an open stream');
    const { stream, call } = open;
    if (send !== undefined) return this.#send(open, send);
    if (receive !== undefined) return this.#receive(stream, receive);
    if (end === 'half-close') call.halfClose();
    if (end === 'half-close') return [];
    this.#open.delete(number);
    if (ended !== undefined) await this.#until(stream, () => false);
    else await this.#changingQueue(open.queue, stream, () => call.cancel());
    call.cancel();
    const left = this.#leftEvents(stream);
    const { ended: replayed = 'open' } = stream;
    if (ended === undefined || ended === replayed) return left;
    return [...left, this.#difference(stream.rpc, { field: 'status', recorded: ended, replayed })];
  }

  async #send(open: Open, request: JsonObject): Promise<readonly ReplayDifference[]> {
    const { stream, call } = open;
    const queue = this.#memory === undefined ? queueIn(stream.rpc, request) : undefined;
    if (queue !== undefined) open.queue = queue;
    await this.#changingQueue(queue, stream, () => call.send(withRevisions(request, this.#revisions)));
    return [];
  }

  /**
   * Does something that makes a server add a key to a queue, or delete one, and waits until it has. The calls that follow
   * must not overtake a Lock or Campaign that enters its queue or leaves it.
   */
  async #changingQueue(queue: JsonObject | undefined, stream: PlayedStream, action: () => void): Promise<void> {
    if (queue === undefined) return action();
    const before = await this.#count(queue);
    action();
    const untilMs = monotonicMs() + Math.min(this.#timeoutMs, QUEUE_MS);
    while (stream.ended === undefined && (await this.#count(queue)) === before && monotonicMs() < untilMs)
      await pause(POLL_MS);
  }

  /** Counts the keys of a queue. */
  async #count(range: JsonObject): Promise<number> {
    const { answer } = await this.#ask('KV/Range', { ...range, count_only: true });
    return Number(answer?.count ?? 0);
  }

  async #receive(stream: PlayedStream, recorded: JsonObject): Promise<readonly ReplayDifference[]> {
    const differences: ReplayDifference[] = [];
    if (!stream.isWatch || isControl(recorded)) {
      await this.#until(stream, () => stream.has(recorded));
      const replayed = stream.take(recorded);
      if (replayed === undefined) {
        const problem = stream.ended ?? this.#noAnswer;
        differences.push(this.#difference(stream.rpc, { field: 'status', recorded: 'OK', replayed: problem }));
      } else {
        const withoutEvents = ({ events: _, ...rest }: JsonObject): JsonObject => rest;
        differences.push(...this.#compare(stream.rpc, {}, withoutEvents(recorded), withoutEvents(replayed)));
      }
    }
    const events = objectsIn(recorded.events);
    for (const [index, event] of events.entries())
      differences.push(...(await this.#watchEvent(stream, recorded, event, `events[${index}]`)));
    if (recorded.canceled === true) differences.push(...this.#leftEvents(stream, recorded));
    return differences;
  }

  /** Compares an event with the next one that the server has sent. */
  async #watchEvent(
    stream: PlayedStream,
    answer: JsonObject,
    event: JsonObject,
    field: string,
  ): Promise<readonly ReplayDifference[]> {
    const { rpc } = stream;
    const arrived = stream.eventsOf(answer);
    await this.#until(stream, () => arrived.length > 0);
    const index = arrived.findIndex((each) => keyOf(each.event) === keyOf(event));
    if (index < 0) return [this.#difference(rpc, { field, recorded: event, replayed: undefined })];
    const extra = arrived.splice(0, index).map((each) => this.#extraEvent(rpc, each.event));
    const [found] = arrived.splice(0, 1);
    const comparison = new MessageComparison(rpc, this.#revisions, false);
    comparison.compare(event, found?.event, field);
    return [...extra, ...comparison.differences.map((difference) => this.#difference(rpc, difference))];
  }

  /**
   * Returns the events that the recording lacks before the end of a watch, or of all watches of a stream. An event just
   * before the end may have been on its way.
   */
  #leftEvents(stream: PlayedStream, answer?: JsonObject): readonly ReplayDifference[] {
    return stream
      .leave(answer)
      .filter(({ ms }) => ms + TAIL_MS <= this.#ms)
      .map(({ event }) => this.#extraEvent(stream.rpc, event));
  }

  #extraEvent(rpc: string, event: JsonObject): ReplayDifference {
    return this.#difference(rpc, { field: 'events', recorded: undefined, replayed: event });
  }

  async #event({ expire, write: events, skip, compact }: EventStep): Promise<readonly ReplayDifference[]> {
    const memory = this.#memory;
    if (expire !== undefined) return this.#expire(expire);
    if (events !== undefined) await this.#write(events);
    if (memory === undefined) return [];
    if (skip !== undefined) memory.member.store.skip(BigInt(skip));
    if (compact !== undefined && memory.member.store.compacted < compact)
      memory.member.store.compact(this.#revisions.toServer(BigInt(compact)));
    return [];
  }

  /** Repeats the writes of clients that the recording lacks. */
  async #write(events: readonly JsonObject[]): Promise<void> {
    if (this.#memory !== undefined) {
      const decoded = events.map((json) => fromJson(Event, json, { bytesFromJson: fromTextOrBase64 }));
      return write(this.#memory, decoded);
    }
    const operations = events.map(({ type, kv }): JsonObject => {
      const { key = '', value = '' } = objectIn(kv);
      return type === 'DELETE' ? { request_delete_range: { key } } : { request_put: { key, value } };
    });
    const { answer } = await this.#ask('KV/Txn', { success: operations });
    const recorded = events[0]?.kv;
    if (answer !== undefined && isJsonObject(recorded))
      this.#revisions.learn(bigintIn(recorded.mod_revision), headerRevision(answer));
  }

  /** Makes a lease expire, or waits until it has. */
  async #expire(hexId: string): Promise<readonly ReplayDifference[]> {
    const id = BigInt(`0x${hexId}`);
    if (this.#memory !== undefined) {
      if (!this.#time.expire(String(id)) && this.#memory.member.leases.has(id)) this.#memory.expireLease(id);
      return [];
    }
    const ask = async (): Promise<number> =>
      Number((await this.#ask('Lease/LeaseTimeToLive', { ID: String(id) })).answer?.TTL ?? 0);
    const untilMs = monotonicMs() + Math.max(0, await ask()) * 1_000 + REVOKE_MS;
    while ((await ask()) >= 0) {
      if (monotonicMs() > untilMs)
        return [this.#difference(NO_RPC, { field: `lease ${hexId}`, recorded: 'expired', replayed: 'alive' })];
      await pause(POLL_MS);
    }
    return [];
  }

  #difference(rpc: string, { field, recorded, replayed }: FieldDifference): ReplayDifference {
    return { step: this.#step, rpc, field, recorded, replayed };
  }
}

/** Finds an RPC by its name in a recording, such as `KV/Put`. */
function methodNamed(name: string): AnyMethod {
  const method = methodByShortPath.get(name);
  if (method === undefined) throw invalidInput('rpc', JSON.stringify(name), 'an RPC of etcd, such as KV/Put');
  return method;
}

/** Returns the keys of the queue that a request enters. Undefined for other requests. */
function queueIn(rpc: string, { name }: JsonObject): JsonObject | undefined {
  if (!WAITING.includes(rpc)) return undefined;
  // `0` is the character after `/`.
  return { key: `${name}/`, range_end: `${name}0` };
}

function keyOf({ kv }: JsonObject): JsonValue | undefined {
  return objectIn(kv).key;
}
