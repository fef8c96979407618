import { NO_BYTES } from '../../src/base/bytes.js';
import { type Clock, ManualClock } from '../../src/testing/memory/clock.js';
import { KeyRange } from '../../src/testing/memory/key-range.js';
import { Member } from '../../src/testing/memory/member.js';
import {
  Router,
  type ServerCall,
  type StatusError,
  streamingRoute,
  unaryRoute,
} from '../../src/testing/memory/service.js';
import type { MemberSettings } from '../../src/testing/memory/settings.js';
import { decode } from '../../src/wire/protobuf/reader.js';
import type { Method } from '../../src/wire/protobuf/schema.js';
import { encode, type Init } from '../../src/wire/protobuf/writer.js';
import type { Metadata } from '../../src/wire/transport.js';
import { randomNumbers } from '../load/rounds.js';

/** A streaming call to a service. */
export interface OpenStream<Request, Response> {
  send(request: Init<Request>): void;
  halfClose(): void;
  cancel(): void;
  /** Returns the responses that have arrived since the last call, decoded from their bytes. */
  take(): Response[];
  /**
   * The error with which the server ended the call, `ok` if it ended without error, or undefined if the call is open.
   */
  readonly ended: StatusError | 'ok' | undefined;
}

/** A clock that stands still and counts the pending timers. It never runs a timer. */
export class CountingClock implements Clock {
  readonly #timers = new Set<object>();

  /** The number of pending timers. */
  get timers(): number {
    return this.#timers.size;
  }

  now(): number {
    return 0;
  }

  after(): () => void {
    const timer = {};
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }
}

/** A member with some of its services, a clock that the test moves, and functions to call the services. */
export class ServiceBench {
  readonly clock = new ManualClock();
  readonly member: Member;
  readonly router = new Router();
  /** The metadata of the next calls. */
  metadata: Metadata = {};
  readonly #signal = new AbortController().signal;

  constructor(settings: Partial<MemberSettings> = {}) {
    this.member = new Member({
      version: '3.6',
      clock: this.clock,
      random: randomNumbers(1),
      name: 'default',
      endpoint: 'unix:///memory-etcd',
      maxTxnOps: 128,
      maxRequestBytes: 1_572_864,
      quotaBytes: 2 ** 31,
      tokenTtlSeconds: 300,
      progressIntervalMs: 600_000,
      ...settings,
    });
  }

  get #call(): ServerCall {
    return { metadata: this.metadata, endpoint: 'unix:///memory-etcd', signal: this.#signal };
  }

  /** Makes a unary call. Only methods whose handlers answer at once can be called. */
  call<Request, Response>(method: Method<Request, Response, 'unary'>, request: Init<Request>): Response {
    const answer = unaryRoute(this.router, method.path).unary(
      decode(method.request, encode(method.request, request)),
      this.#call,
    );
    return decode(method.response, encode(method.response, answer as Init<Response>));
  }

  open<Request, Response>(
    method: Method<Request, Response, 'server-streaming' | 'bidi-streaming'>,
  ): OpenStream<Request, Response> {
    const arrived: Response[] = [];
    let ended: StatusError | 'ok' | undefined;
    const sink = streamingRoute(this.router, method.path).streaming(
      {
        send: (message) => {
          if (ended === undefined)
            arrived.push(decode(method.response, encode(method.response, message as Init<Response>)));
        },
        end: (error) => {
          ended ??= error ?? 'ok';
        },
      },
      this.#call,
    );
    return {
      send: (request) => sink.message(decode(method.request, encode(method.request, request))),
      halfClose: () => sink.halfClosed(),
      cancel: () => sink.canceled(),
      take: () => arrived.splice(0),
      get ended() {
        return ended;
      },
    };
  }

  /** Writes to the store at one revision. A value of undefined deletes the key. */
  write(changes: Readonly<Record<string, string | undefined>>, lease = 0n): void {
    const transaction = this.member.store.write();
    for (const [key, value] of Object.entries(changes)) {
      if (value === undefined) transaction.delete(new KeyRange(utf8(key), NO_BYTES));
      else transaction.put(utf8(key), utf8(value), lease);
    }
    transaction.commit();
  }
}

export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
