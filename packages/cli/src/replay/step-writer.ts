import {
  bigintIn,
  type EventStep,
  type JsonObject,
  objectIn,
  type RecordedStep,
  type StreamStep,
  WAITING,
} from '../../../../src/internal.js';
import type { WireCall } from './calls.js';
import { LOGIN, type Operation } from './operations.js';

/** The TTL in seconds of the lease that a server grants for a call of Lock or Campaign without a lease. */
const DEFAULT_TTL_S = '60';

/** Collects the steps of a recording. Numbers the streams, and finds the user of each call. */
export class StepWriter {
  readonly steps: RecordedStep[] = [];
  /** The open streams by their calls. */
  readonly #streams = new Map<WireCall, number>();
  #opened = 0;
  /** The user who has logged in last on each connection. */
  readonly #users = new Map<number, string>();
  /** The user who has logged in last on any connection. */
  #latestUser: string | undefined;

  /** Notes that later calls on a connection carry the token of a user. */
  loggedIn(connection: number, user: string): void {
    this.#users.set(connection, user);
    this.#latestUser = user;
  }

  /** Adds an operation. If its answer comes later, `waits` is true, and the operation becomes a stream. */
  operation(operation: Operation, sentMs: number, waits: boolean): void {
    const { call, answer, error } = operation;
    const ms = Math.max(sentMs, this.steps.at(-1)?.ms ?? 0);
    const request = withRecordedIds(operation);
    if (call.kind === 'unary' && !waits) {
      this.#lockLease(operation, ms);
      const result = answer === undefined ? (error === undefined ? {} : { error }) : { answer };
      this.steps.push({ ms, call: call.rpc, ...this.#userOf(call), request, ...result });
      return;
    }
    let stream = this.#streams.get(call);
    if (stream === undefined) {
      this.#lockLease(operation, ms);
      stream = this.#opened += 1;
      this.#streams.set(call, stream);
      this.steps.push({ ms, open: call.rpc, stream, ...this.#userOf(call) });
    }
    this.steps.push({ ms, stream, send: request });
    if (!waits && answer !== undefined) this.receive(call, ms, answer);
  }

  /** Adds an answer on an open stream. */
  receive(call: WireCall, ms: number, message: JsonObject): void {
    this.#onStream(call, { ms, receive: withoutEventRevision(message) });
  }

  halfClose(call: WireCall, ms: number): void {
    if (call.kind !== 'unary') this.#onStream(call, { ms, end: 'half-close' });
  }

  /** Adds the end of an open stream. */
  end(call: WireCall, ms: number, end: Pick<StreamStep, 'end' | 'ended'>): void {
    this.#onStream(call, { ms, ...end });
    this.#streams.delete(call);
  }

  /** Adds something that no recorded call has caused. */
  event(step: EventStep): void {
    this.steps.push(step);
  }

  /** Adds a revision of which the recording shows nothing. */
  skip(ms: number): void {
    const last = this.steps.at(-1);
    if (last === undefined || !('skip' in last)) return this.event({ ms, skip: 1 });
    this.steps[this.steps.length - 1] = { ms, skip: (last.skip ?? 0) + 1 };
  }

  #onStream(call: WireCall, step: Omit<StreamStep, 'stream'>): void {
    const stream = this.#streams.get(call);
    if (stream !== undefined) this.steps.push({ ...step, stream });
  }

  #userOf({ hasToken, connection }: WireCall): { readonly user?: string } {
    const user = hasToken ? (this.#users.get(connection) ?? this.#latestUser) : undefined;
    return user === undefined ? {} : { user };
  }

  /** Grants the lease that the server has granted for a call of Lock or Campaign without a lease. */
  #lockLease({ call, request, answer }: Operation, ms: number): void {
    if (!WAITING.includes(call.rpc) || bigintIn(request.lease) !== 0n) return;
    const id = leaseInKey(answer);
    if (id === 0n) return;
    const lease = { ID: String(id), TTL: DEFAULT_TTL_S };
    this.steps.push({ ms, call: 'Lease/LeaseGrant', ...this.#userOf(call), request: lease });
  }
}

/** Returns a request that asks for the lease ID that the server has chosen, so that it is the same in keys and values. */
function withRecordedIds({ call, request, answer, error }: Operation): JsonObject {
  if (call.rpc === 'Lease/LeaseGrant' && answer?.ID !== undefined) return { ID: answer.ID, ...request };
  // The recording contains no passwords. A login that was refused must be refused again.
  if (call.rpc === LOGIN && error?.includes('authentication failed')) return { ...request, password: 'wrong' };
  const id = WAITING.includes(call.rpc) && bigintIn(request.lease) === 0n ? leaseInKey(answer) : 0n;
  return id === 0n ? request : { ...request, lease: String(id) };
}

/** Returns the lease ID at the end of a queue key. */
function leaseInKey(answer: JsonObject | undefined): bigint {
  const key = String(answer?.key ?? objectIn(answer?.leader).key ?? '');
  const [, hex] = /\/([0-9a-f]{1,16})$/.exec(key) ?? [];
  return hex === undefined ? 0n : BigInt(`0x${hex}`);
}

/** The revision in the header of an answer with events may be any from the revision of the events on. */
function withoutEventRevision(message: JsonObject): JsonObject {
  if (message.events === undefined) return message;
  const { header: _, ...rest } = message;
  return rest;
}
