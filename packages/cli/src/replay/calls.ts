import {
  type AnyMethod,
  errorFromText,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  methodByPath,
  OF_CLUSTER,
  percentDecoded,
  shortPath,
  statusCode,
  textOf,
} from '../../../../src/internal.js';
import { fieldsOf } from '../frames.js';
import { headerIn, messagesIn, pathOf, type WireFrame, type WireMessage } from '../inspect/index.js';
import type { Traffic } from '../proxy/traffic.js';

/** A call in a recording. */
export interface WireCall {
  readonly id: number;
  readonly connection: number;
  /** The RPC, such as `KV/Put`. */
  readonly rpc: string;
  readonly kind: AnyMethod['kind'];
  /** Whether the call carries a token. */
  readonly hasToken: boolean;
}

/** Something that happened to a call. */
export interface WireEvent {
  readonly ms: number;
  readonly call: WireCall;
  readonly kind: 'request' | 'answer' | 'half-close' | 'cancel' | 'ended';
  /** The request or the answer. Empty for other events. */
  readonly message: JsonObject;
  /** The status of the event `ended`: `OK`, or the status code and the message. */
  readonly status: string;
}

/** Collects the calls in the frames of a recording. */
export class CallReader implements Traffic {
  readonly events: WireEvent[] = [];
  /** How many calls were left out, by the reason. */
  readonly leftOut = new Map<string, number>();
  readonly #open = new Map<string, WireCall>();
  #calls = 0;
  #startMs: number | undefined;

  frame(frame: WireFrame): void {
    this.#startMs ??= frame.atMs;
    const key = `${frame.connection}:${frame.streamId}`;
    if (frame.detail.kind === 'http1') this.#http1(frame, key);
    else if (frame.direction === 'sent') this.#sent(frame, key);
    else this.#received(frame, key);
  }

  /** A connection is closed. The client cannot get the rest of the answers. */
  closed(connection: number, atMs: number): void {
    for (const [key, call] of this.#open) if (call.connection === connection) this.#end(key, atMs, 'cancel');
  }

  #sent(frame: WireFrame, key: string): void {
    const { atMs, type, flags } = frame;
    const path = headerIn(frame, ':path');
    const token = headerIn(frame, 'token') ?? headerIn(frame, 'authorization');
    if (path !== undefined)
      this.#begin(key, frame.connection, methodByPath.get(pathOf(path)), path, token !== undefined);
    for (const message of messagesIn(frame)) this.#add(key, atMs, 'request', requestOf(message));
    if (flags.includes('END_STREAM')) this.#add(key, atMs, 'half-close');
    if (type === 'RST_STREAM') this.#end(key, atMs, 'cancel');
  }

  #received(frame: WireFrame, key: string): void {
    const { atMs, type } = frame;
    for (const message of messagesIn(frame)) this.#add(key, atMs, 'answer', answerOf(message));
    const status = headerIn(frame, 'grpc-status');
    if (status !== undefined)
      this.#end(key, atMs, 'ended', statusText(Number(status), headerIn(frame, 'grpc-message') ?? ''));
    if (type === 'RST_STREAM') this.#end(key, atMs, 'cancel');
  }

  #http1(frame: WireFrame, key: string): void {
    const { detail, atMs, connection, direction } = frame;
    if (detail.kind !== 'http1') return;
    if (direction === 'sent') {
      const [message] = detail.messages;
      if (detail.line === '') return;
      if (message === undefined) return this.#leaveOut('HTTP requests that are no calls');
      const hasToken = /^(?:authorization|grpc-metadata-token):/im.test(textOf(frame.bytes));
      this.#begin(key, connection, methodByPath.get(message.method), message.method, hasToken);
      for (const each of detail.messages) this.#add(key, atMs, 'request', requestOf(each));
      return this.#add(key, atMs, 'half-close');
    }
    for (const message of detail.messages) this.#add(key, atMs, 'answer', answerOf(message));
    const isUnary = this.#open.get(key)?.kind === 'unary';
    if (detail.problem !== '') {
      const { code, problem } = errorFromText(detail.problem);
      this.#end(key, atMs, 'ended', `${code}: ${problem}`);
    } else if (isUnary && detail.messages.length > 0) this.#end(key, atMs, 'ended', 'OK');
  }

  #begin(key: string, connection: number, method: AnyMethod | undefined, path: string, hasToken: boolean): void {
    if (method === undefined) return this.#leaveOut(`calls of ${path}, which is no RPC of etcd`);
    this.#calls += 1;
    this.#open.set(key, { id: this.#calls, connection, rpc: shortPath(method), kind: method.kind, hasToken });
  }

  #leaveOut(reason: string): void {
    this.leftOut.set(reason, (this.leftOut.get(reason) ?? 0) + 1);
  }

  #end(key: string, atMs: number, kind: 'cancel' | 'ended', status = ''): void {
    this.#add(key, atMs, kind, {}, status);
    this.#open.delete(key);
  }

  #add(key: string, atMs: number, kind: WireEvent['kind'], message: JsonObject = {}, status = ''): void {
    const call = this.#open.get(key);
    const ms = Math.round((atMs - (this.#startMs ?? atMs)) * 1_000) / 1_000;
    if (call !== undefined) this.events.push({ ms, call, kind, message, status });
  }
}

/** Returns the status as `NotFound: etcdserver: requested lease not found`. The message is percent-encoded. */
function statusText(status: number, message: string): string {
  if (status === 0) return 'OK';
  const decoded = percentDecoded(message);
  return `${statusCode(status)}: ${decoded || `gRPC status ${statusCode(status)}`}`;
}

/** Returns the fields of a request. A recording has zero bytes instead of passwords, which become asterisks. */
function requestOf(message: WireMessage): JsonObject {
  return without(fieldsOf(message), (name) => name === 'token') as JsonObject;
}

/** Returns the fields of an answer without those that belong to one cluster, and without secrets. */
function answerOf(message: WireMessage): JsonObject {
  const secret = ['token', 'blob'];
  return without(fieldsOf(message), (name) => OF_CLUSTER.includes(name) || secret.includes(name)) as JsonObject;
}

function without(value: JsonValue, isLeftOut: (name: string) => boolean): JsonValue {
  if (Array.isArray(value)) return value.map((item) => without(item, isLeftOut));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !isLeftOut(name))
      .map(([name, inner]) => [
        name,
        /password$/i.test(name) ? '*'.repeat(String(inner).length) : without(inner, isLeftOut),
      ]),
  );
}
