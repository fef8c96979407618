import {
  bigintIn,
  headerRevision,
  type JsonObject,
  type MemoryVersion,
  objectIn,
  objectsIn,
  type RecordedState,
  type Recording,
  WAITING,
} from '../../../../src/internal.js';
import type { CallReader, WireCall, WireEvent } from './calls.js';
import { keysBefore, RecordedHistory } from './history.js';
import { missingLeases, RecordedLeases } from './leases.js';
import { existingKey, keysWritten, putsIn } from './messages.js';
import { isWriter, LOGIN, type Operation, operationsIn } from './operations.js';
import { StepWriter } from './step-writer.js';

/** A recording as steps, and what the recording does not contain. */
export interface Plan {
  readonly recording: Recording;
  /** The minor version of etcd that an answer names. Undefined if no answer does. */
  readonly version: MemoryVersion | undefined;
  /** Sentences about what the replay leaves out or does not know. */
  readonly notes: readonly string[];
}

/**
 * Brings the calls of a recording into an order in which one server can repeat them one by one. Each call stays between
 * its recorded request and its recorded answer. Among the calls that were open at once, the revisions in the answers
 * say in which order the server has carried them out. A revision that no recorded call explains belongs to a lease that
 * expired, to a request whose answer the client did not wait for, or to another client.
 */
export class Planner {
  readonly #events: readonly WireEvent[];
  readonly #history: RecordedHistory;
  readonly #leases = new RecordedLeases();
  readonly #operations: ReturnType<typeof operationsIn>;
  readonly #steps = new StepWriter();
  /** The operations whose requests were sent, but that have not been carried out yet, in the order of the requests. */
  #ready: Operation[] = [];
  /** The requests that the clients gave up. The server may have carried them out. */
  readonly #givenUp: Operation[] = [];
  readonly #done = new Set<Operation>();
  readonly #written = new Map<string, bigint[]>();
  /** The keys that existed before the recording, although no answer may contain them. */
  readonly #existing = new Set<string>();
  /** The revisions at which recorded calls or watched events have changed keys. */
  readonly #explained = new Set<bigint>();
  /** The users who log in although the recording does not turn on authentication. */
  readonly #usersBefore = new Set<string>();
  #enablesAuth = false;
  /** The revision of the store before the recording. Undefined until an answer shows it. */
  #base: bigint | undefined;
  #reached = 0n;
  /** The revisions of compactions that canceled a watch, in ascending order. */
  readonly #compactions: readonly bigint[];
  #compacted = 0n;
  /** The ends of canceled calls of Lock and Campaign whose keys the server has not deleted yet, by the prefixes of the keys. */
  readonly #cleanUps: { readonly prefix: string; readonly call: WireCall }[] = [];
  #ms = 0;
  #index = 0;
  #refused = 0;
  #lost = 0;

  constructor({ events }: Pick<CallReader, 'events'>) {
    this.#events = events;
    this.#history = new RecordedHistory(events);
    this.#operations = operationsIn(events);
    this.#compactions = events
      .filter(({ call, message }) => call.rpc === 'Watch/Watch' && message.compact_revision !== undefined)
      .map(({ message }) => bigintIn(message.compact_revision))
      .sort((a, b) => (a < b ? -1 : 1));
    for (const { revision, writes } of this.#operations.byRequest.values())
      if (writes === true) this.#explained.add(revision);
    for (const kv of this.#history.versions) this.#explained.add(bigintIn(kv.mod_revision));
  }

  plan(): Plan {
    for (const [index, event] of this.#events.entries()) {
      this.#ms = event.ms;
      this.#index = index;
      if (event.kind === 'request') this.#request(event);
      else if (event.kind === 'answer') this.#answer(event);
      else this.#end(event);
    }
    for (const operation of [...this.#ready]) this.#giveUp(operation);
    for (const { call } of this.#cleanUps) this.#steps.end(call, this.#ms, { end: 'cancel' });
    const { keys, unknownValues } = keysBefore(this.#history, this.#base ?? 1n, this.#written, this.#existing);
    const leases = [...this.#leases.before].map(([id, ttl]) => [BigInt(id).toString(16), ttl] as const);
    const before: RecordedState = {
      revision: Number(this.#base ?? 1n),
      ...(keys.length > 0 ? { keys } : {}),
      ...(leases.length > 0 ? { leases: Object.fromEntries(leases) } : {}),
      ...(this.#usersBefore.size > 0 ? { users: [...this.#usersBefore] } : {}),
    };
    return {
      recording: { before, steps: this.#steps.steps },
      version: this.#version(),
      notes: this.#notes(before, unknownValues),
    };
  }

  #notes({ revision, keys = [], leases = {}, users }: RecordedState, unknownValues: number): string[] {
    const skipped = this.#steps.steps.reduce((sum, step) => sum + ('skip' in step ? (step.skip ?? 0) : 0), 0);
    const notes: (string | false)[] = [
      (keys.length > 0 || Object.keys(leases).length > 0) &&
        `the recording begins at revision ${revision}; it shows from before: versions of keys: ${keys.length}, leases: ${Object.keys(leases).length}`,
      unknownValues > 0 &&
        `the recording does not show these values of keys, which are empty in the replay: ${unknownValues}`,
      skipped > 0 && `revisions of other clients of which the recording shows no key: ${skipped}`,
      this.#lost + this.#givenUp.length > 0 &&
        `requests left out because the recording contains no answer and no effect: ${this.#lost + this.#givenUp.length}`,
      users !== undefined &&
        `the recording does not contain the passwords and permissions of ${users.join(', ')}; in the replay they may do everything`,
      this.#refused > 0 && `requests left out because a permission was missing: ${this.#refused}`,
    ];
    return notes.filter((note) => note !== false);
  }

  #request(event: WireEvent): void {
    const operation = this.#operations.byRequest.get(event) as Operation;
    if (WAITING.includes(operation.call.rpc)) this.#expectQueueKey(operation);
    this.#ready.push(operation);
    if (operation.call.kind === 'server-streaming' || operation.request.progress_request !== undefined)
      this.#carryOut(operation);
  }

  /** Finds the revision at which a call of Lock or Campaign has created its key, which may be long before its answer. */
  #expectQueueKey(operation: Operation): void {
    const { call, request, answer } = operation;
    const key =
      answer?.key ?? objectIn(answer?.leader).key ?? `${request.name}/${bigintIn(request.lease).toString(16)}`;
    const end = operation.revision || this.#highestBeforeEnd(call);
    const created = this.#history.createdAfter(String(key), this.#reached);
    if (call.rpc === 'Lock/Lock' || answer === undefined) {
      let first = created ?? this.#reached + 1n;
      if (created === undefined) while (this.#explained.has(first)) first += 1n;
      operation.revision = created !== undefined || first <= end ? first : operation.revision;
    }
    operation.writes = operation.revision > 0n ? true : undefined;
    if (operation.revision > 0n) this.#explained.add(operation.revision);
  }

  /** Returns the highest revision in an answer before the end of a call that has started now. */
  #highestBeforeEnd(call: WireCall): bigint {
    let highest = 0n;
    for (const event of this.#events.slice(this.#index)) {
      if (event.call === call && isEnd(event)) break;
      const revision = event.kind === 'answer' ? headerRevision(event.message) : 0n;
      if (revision > highest) highest = revision;
    }
    return highest;
  }

  #answer(event: WireEvent): void {
    const { call, message, ms } = event;
    const operation = this.#operations.byAnswer.get(event);
    const last = objectsIn(message.events).at(-1);
    if (last !== undefined) this.#reach(bigintIn(objectIn(last.kv).mod_revision));
    if (operation === undefined) {
      const isProgress = call.rpc === 'Watch/Watch' && last === undefined && message.canceled !== true;
      if (isProgress || call.rpc === 'Maintenance/Snapshot') return;
      if (call.rpc !== 'Watch/Watch') this.#reach(headerRevision(message));
      this.#steps.receive(call, ms, message);
      return;
    }
    if (!this.#done.has(operation)) this.#carryOutInOrder(operation);
    // The answer of a call that has waited in a queue.
    else if (WAITING.includes(call.rpc)) {
      // The answer of Lock has the revision at which the call has seen that it is the first. That of Campaign has not.
      if (call.rpc === 'Lock/Lock') this.#reach(headerRevision(message));
      else for (const each of this.#ready.filter(({ writes }) => writes !== false).sort(inOrder)) this.#carryOut(each);
      this.#steps.receive(call, ms, message);
    }
  }

  #end({ call, kind, status, ms }: WireEvent): void {
    const unanswered = kind === 'half-close' ? [] : this.#ready.filter((each) => each.call === call);
    for (const operation of unanswered) {
      if (operation.error !== undefined) this.#carryOutInOrder(operation);
      else this.#giveUp(operation);
    }
    if (kind === 'ended') this.#steps.end(call, ms, { ended: status });
    else if (kind === 'half-close') this.#steps.halfClose(call, ms);
    // The server deletes the key of the call some time later.
    else if (WAITING.includes(call.rpc)) this.#cleanUps.push({ prefix: `${this.#nameOf(call)}/`, call });
    else this.#steps.end(call, ms, { end: 'cancel' });
  }

  /** Returns the name of the lock or the election of a call. */
  #nameOf(call: WireCall): string {
    const request = this.#events.find((event) => event.call === call && event.kind === 'request');
    return String(request?.message.name ?? '');
  }

  /** The client does not wait for the answer any more. */
  #giveUp(operation: Operation): void {
    if (this.#done.has(operation)) return;
    this.#ready = this.#ready.filter((each) => each !== operation);
    const { call } = operation;
    if (WAITING.includes(call.rpc) || call.kind !== 'unary') this.#carryOut(operation);
    else if (isWriter(call)) this.#givenUp.push(operation);
    else this.#lost += 1;
  }

  /** Carries out an operation after those that the server has carried out before. */
  #carryOutInOrder(operation: Operation): void {
    const { revision, call } = operation;
    const before = this.#ready.filter(
      (each) =>
        each !== operation &&
        ((each.call === call && this.#ready.indexOf(each) < this.#ready.indexOf(operation)) ||
          (each.revision > 0n && revision > 0n && inOrder(each, operation) < 0)),
    );
    for (const each of before.sort(inOrder)) this.#carryOut(each);
    this.#carryOut(operation);
  }

  /** Brings the store to a revision that an event of a watch shows. */
  #reach(revision: bigint): void {
    const before = this.#ready.filter(
      (each) =>
        each.revision > 0n && (each.revision < revision || (each.revision === revision && each.writes !== false)),
    );
    for (const each of before.sort(inOrder)) this.#carryOut(each);
    if (this.#base !== undefined) this.#explainUntil(revision);
  }

  #carryOut(operation: Operation): void {
    const { call, ms, revision } = operation;
    if (this.#done.has(operation)) return;
    this.#done.add(operation);
    this.#ready = this.#ready.filter((each) => each !== operation);
    if (revision > 0n) {
      operation.writes ??= this.#mayWrite(operation);
      this.#explainUntil(operation.writes ? revision - 1n : revision);
      if (revision > this.#reached) this.#reached = revision;
    }
    this.#compactBefore(operation);
    for (const id of missingLeases(operation)) if (this.#leases.isDue(id, this.#ms)) this.#expire(id);
    this.#leases.follow(operation);
    if (operation.answer !== undefined) {
      const existing = existingKey(call.rpc, operation.request, operation.answer);
      if (existing !== undefined && !this.#written.has(existing)) this.#existing.add(existing);
      for (const { key } of putsIn(call.rpc, operation.request, operation.answer)) this.#wrote(key, revision);
    }
    if (call.rpc === LOGIN) this.#login(operation);
    if (call.rpc === 'Auth/AuthEnable' && operation.error === undefined) this.#enablesAuth = true;
    if (this.#usersBefore.size > 0 && operation.error?.startsWith('PermissionDenied') === true) this.#refused += 1;
    else this.#steps.operation(operation, ms, this.#isOvertaken(operation));
  }

  /** Adds the compaction by another client that an answer shows: the watch is canceled, or the read is refused. */
  #compactBefore({ call, request, answer, error }: Operation): void {
    if (call.rpc === 'KV/Compact' && error === undefined) this.#noteCompaction(bigintIn(request.revision));
    let compacted = 0n;
    if (error?.endsWith('required revision has been compacted') === true && request.revision !== undefined) {
      const isLater = (revision: bigint): boolean => revision > bigintIn(request.revision);
      compacted = this.#compactions.find(isLater) ?? bigintIn(request.revision) + 1n;
    } else if (request.create_request !== undefined) {
      const end = this.#events.find(
        ({ call: other, message }) =>
          other === call && message.watch_id === answer?.watch_id && message.compact_revision !== undefined,
      );
      compacted = bigintIn(end?.message.compact_revision);
    }
    if (compacted <= this.#compacted || call.rpc === 'KV/Compact') return;
    this.#noteCompaction(compacted);
    this.#explainUntil(compacted);
    this.#steps.event({ ms: this.#ms, compact: Number(compacted) });
  }

  #noteCompaction(revision: bigint): void {
    if (revision > this.#compacted) this.#compacted = revision;
  }

  /** Whether a call has changed keys whose answer shows only the revision. */
  #mayWrite({ call, request, revision }: Operation): boolean {
    const own = [request.key, objectIn(request.leader).key].filter((key) => key !== undefined).map(String);
    const keys = call.rpc === 'Lease/LeaseRevoke' ? this.#leases.keysOf(String(request.ID)) : own;
    const events = this.#history.eventsAt(revision);
    const isDeletion = call.rpc !== 'Election/Proclaim';
    const isShown = events.some(({ type, kv }) => {
      return (type === 'DELETE') === isDeletion && keys.includes(String(objectIn(kv).key));
    });
    if (keys.length === 0 || (events.length > 0 && !isShown)) return false;
    return this.#base === undefined || revision > this.#reached;
  }

  #login({ call, request, answer }: Operation): void {
    if (answer === undefined) return;
    const user = String(request.name);
    this.#steps.loggedIn(call.connection, user);
    if (!this.#enablesAuth) this.#usersBefore.add(user);
  }

  /** Whether a call of Lock or Campaign has no answer, or other answers come before it. */
  #isOvertaken(operation: Operation): boolean {
    const { call, answer, error } = operation;
    if (!WAITING.includes(call.rpc)) return false;
    if ((answer ?? error) === undefined) return true;
    const isAnswer = (event: WireEvent): boolean => event.kind === 'answer';
    const until = this.#events.findIndex((event) => event.call === call && isEnd(event));
    return this.#events.slice(this.#index + 1, until).some((event) => isAnswer(event) && event.call !== call);
  }

  /** Adds steps that explain the revisions until `revision`. */
  #explainUntil(revision: bigint): void {
    if (this.#base === undefined) {
      this.#base = revision;
      this.#reached = revision;
      for (const kv of this.#history.versions) if (bigintIn(kv.mod_revision) <= revision) this.#leases.seeded(kv);
    }
    while (this.#reached < revision) {
      this.#explain(this.#reached + 1n);
      this.#reached += 1n;
    }
  }

  #explain(revision: bigint): void {
    const ms = this.#ms;
    const events = this.#history.eventsAt(revision);
    const keys = events.map(({ kv }) => String(objectIn(kv).key));
    const givenUp = this.#givenUp.findIndex(
      ({ request }) => keys.length === 0 || keysWritten(request).some((key) => keys.includes(key)),
    );
    const isDeletion = events.every(({ type }) => type === 'DELETE');
    // A lease that expires at this revision does not delete a key later.
    const isKept = (key: string): boolean => this.#history.isDeletedAfter(key, revision);
    const lease = keys.length === 0 ? this.#leases.firstDue(ms, isKept) : this.#leases.leaseOf(keys[0] as string);
    const cleanUp = this.#cleanUps.findIndex(({ prefix }) => isDeletion && keys.every((key) => key.startsWith(prefix)));
    if (cleanUp >= 0)
      for (const { call } of this.#cleanUps.splice(cleanUp, 1)) this.#steps.end(call, ms, { end: 'cancel' });
    else if (givenUp >= 0) {
      const [operation] = this.#givenUp.splice(givenUp, 1) as [Operation];
      for (const key of keysWritten(operation.request)) this.#wrote(key, revision);
      this.#steps.operation(operation, ms, false);
    } else if (isDeletion && lease !== undefined && this.#leases.isDue(lease, ms)) this.#expire(lease);
    else if (events.length > 0) this.#write(events, revision);
    else this.#steps.skip(ms);
  }

  #write(events: readonly JsonObject[], revision: bigint): void {
    this.#steps.event({ ms: this.#ms, write: events });
    for (const { type, kv } of events) {
      const { key = '', lease = '0' } = objectIn(kv);
      if (type === 'DELETE') continue;
      this.#leases.put({ key: String(key), lease: String(lease) });
      this.#wrote(String(key), revision);
    }
  }

  #wrote(key: string, revision: bigint): void {
    const revisions = this.#written.get(key);
    if (revisions === undefined) this.#written.set(key, [revision]);
    else revisions.push(revision);
  }

  #expire(id: string): void {
    this.#leases.expired(id);
    this.#steps.event({ ms: this.#ms, expire: BigInt(id).toString(16) });
  }

  #version(): MemoryVersion | undefined {
    for (const { call, message } of this.#events) {
      const [, minor] = call.rpc === 'Maintenance/Status' ? (/^(3\.[567])\./.exec(String(message.version)) ?? []) : [];
      if (minor !== undefined) return minor as MemoryVersion;
    }
    return undefined;
  }
}

/** Whether an event of a unary call settles the call. */
function isEnd({ kind }: WireEvent): boolean {
  return kind === 'answer' || kind === 'ended' || kind === 'cancel';
}

/** Orders operations as the server has carried them out. A write comes before the reads at its revision. */
function inOrder(a: Operation, b: Operation): number {
  if (a.revision === 0n || b.revision === 0n || a.revision === b.revision) return rankOf(a) - rankOf(b);
  return a.revision < b.revision ? -1 : 1;
}

/** Among the operations at one revision, only the first one can have changed a key. */
function rankOf({ writes }: Operation): number {
  if (writes === undefined) return 1;
  return writes ? 0 : 2;
}
