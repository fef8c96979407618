import { bigintIn, headerRevision, type JsonObject, objectIn, WAITING } from '../../../../src/internal.js';
import type { WireCall, WireEvent } from './calls.js';
import { hasChanged } from './messages.js';

/** A request of a recording, with its answer. A stream has several operations. */
export interface Operation {
  readonly call: WireCall;
  readonly ms: number;
  readonly request: JsonObject;
  /** The answer. Undefined if the request failed, or if the recording contains no answer. */
  answer: JsonObject | undefined;
  /** The status of a call that has ended without an answer. */
  error: string | undefined;
  /** The revision of the store after the request. 0 if unknown. */
  revision: bigint;
  /** Whether the request has changed a key. Undefined if its answer does not show that. */
  writes: boolean | undefined;
}

const UNKNOWN_WRITERS = ['Lease/LeaseRevoke', 'Lock/Unlock', 'Election/Proclaim', 'Election/Resign'];
export const LOGIN = 'Auth/Authenticate';
const WRITERS: readonly string[] = ['KV/Put', 'KV/DeleteRange', 'KV/Txn', ...UNKNOWN_WRITERS, ...WAITING];

/** Whether an RPC can change keys. */
export function isWriter({ rpc }: WireCall): boolean {
  return WRITERS.includes(rpc);
}

/** Finds the answer of each request. Returns the operations by their request events, and by their answer events. */
export function operationsIn(events: readonly WireEvent[]): {
  readonly byRequest: ReadonlyMap<WireEvent, Operation>;
  readonly byAnswer: ReadonlyMap<WireEvent, Operation>;
} {
  const byRequest = new Map<WireEvent, Operation>();
  const byAnswer = new Map<WireEvent, Operation>();
  /** The operations of each call that wait for their answers. */
  const waiting = new Map<WireCall, Operation[]>();
  for (const event of events) {
    const { call, kind, message, status } = event;
    const own = waiting.get(call) ?? [];
    waiting.set(call, own);
    if (kind === 'request') {
      const unanswered = { answer: undefined, error: undefined, revision: 0n, writes: false };
      const operation: Operation = { call, ms: event.ms, request: message, ...unanswered };
      byRequest.set(event, operation);
      if (hasAnswer(operation)) own.push(operation);
    } else if (kind === 'answer') {
      const index = own.findIndex((operation) => answers(operation, message));
      const [operation] = index < 0 ? [] : own.splice(index, 1);
      if (operation === undefined) continue;
      byAnswer.set(event, operation);
      learn(operation, message);
    } else if (kind === 'ended' && status !== 'OK' && call.kind === 'unary') {
      const [operation] = own.splice(0, 1);
      if (operation !== undefined) operation.error = status;
    }
  }
  return { byRequest, byAnswer };
}

/** Whether the server answers the request with one message. */
function hasAnswer({ call, request }: Operation): boolean {
  if (call.rpc === 'Watch/Watch') return request.progress_request === undefined;
  return call.kind !== 'server-streaming';
}

/** Whether a message on a stream answers this operation. */
function answers({ call, request }: Operation, message: JsonObject): boolean {
  if (call.rpc !== 'Watch/Watch') return true;
  if (request.create_request !== undefined) return message.created === true;
  return message.canceled === true && message.watch_id === objectIn(request.cancel_request).watch_id;
}

function learn(operation: Operation, answer: JsonObject): void {
  const { call, request } = operation;
  operation.answer = answer;
  operation.revision = headerRevision(answer);
  if (call.rpc === 'Election/Campaign') operation.revision = bigintIn(objectIn(answer.leader).rev);
  if (call.rpc === 'KV/Put') operation.writes = true;
  else if (call.rpc === 'KV/Txn' || call.rpc === 'KV/DeleteRange') operation.writes = hasChanged(answer);
  else if (isWriter(call)) operation.writes = undefined;
  // A watch that starts in the past may be answered before the store has reached that revision.
  if (request.create_request !== undefined && answer.canceled === true) operation.revision = 0n;
}
