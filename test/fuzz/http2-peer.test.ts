import fc from 'fast-check';
import { expect } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { methods } from '../../src/gen/methods.js';
import { TRANSPORT_DEFAULTS } from '../../src/wire/transport.js';
import { fuzz } from '../support/fuzz.js';
import { rangeAnswer } from '../support/http2-calls.js';
import {
  data,
  FLAG,
  frame,
  goAway,
  headers,
  ping,
  rstStream,
  settings,
  windowUpdate,
  words,
} from '../support/http2-frames.js';
import { block } from '../support/http2-hpack.js';
import { Http2Peer, type PeerConnection, turn } from '../support/http2-peer.js';
import { probes } from '../support/http2-pings.js';
import { type Play, playing, script } from '../support/script.js';
import type { VirtualClock } from '../support/virtual-clock.js';

// In virtual time, the peer does everything that HTTP/2 allows, and calls succeed, fail, time out and are canceled.
// Every call must end exactly once. The outcome of a call may be `not-sent` only if the peer has received no HEADERS of
// the call or has excluded the call's stream with GOAWAY. No call may open a stream after the end of the call or after
// the client was closed. The client must obey RFC 9113 and etcd's limit on pings, and must probe and then close
// connections that are silent, and close connections that the peer floods with useless frames.

const { pingIntervalMs, pingTimeoutMs } = TRANSPORT_DEFAULTS;
/**
 * The time within which the client must close a silent connection with open streams. It starts at the latest of three
 * events: the peer sends its last byte, the oldest open stream is opened, the last block of the event loop ends.
 */
const LEFT_WITHIN_MS = pingIntervalMs + 3 * pingTimeoutMs + 500;
/**
 * The time within which the client must send its first PING on a silent connection with open streams. It starts at the
 * same time as `LEFT_WITHIN_MS`.
 */
const PROBED_WITHIN_MS = 1_100;
/**
 * If a call times out and the peer has sent nothing since the call opened its stream, the connection may be dead. From
 * this many milliseconds after the timeout on, the client must open no further streams on the connection, unless the
 * peer sends something.
 */
const SUSPECT_WITHIN_MS = 1_500;
const SIGNALS = 3;
/** The number of frames in a flood: more than twice the number of useless frames that the client tolerates at once. */
const FLOOD_FRAMES = 110_000;
const FLOODS = {
  'window update': windowUpdate(0, 1),
  priority: frame('PRIORITY', 0, 1, Buffer.alloc(5)),
  unknown: frame(0xfe, 0, 0),
  interim: headers(1, block([[':status', '103']])),
  'late data': data(1, Buffer.alloc(1)),
  settings: Buffer.concat([settings({ INITIAL_WINDOW_SIZE: 65_536 }), settings({ INITIAL_WINDOW_SIZE: 65_535 })]),
} as const;

/** One step of a generated script. A `signal` of -1 stands for no signal, and a `timeoutMs` of 0 for no timeout. */
type Step =
  | {
      readonly do: 'call';
      readonly count: number;
      /** Whether the script waits for a turn of the event loop after the calls, so that the client can send them. */
      readonly sent: boolean;
      readonly timeoutMs: number;
      readonly signal: number;
      readonly bytes: number;
    }
  | { readonly do: 'abort'; readonly signal: number }
  | { readonly do: 'answer' | 'answer again'; readonly stream: number; readonly cut: number }
  | { readonly do: 'reset'; readonly stream: number; readonly code: number }
  | { readonly do: 'settings'; readonly streams: number; readonly window: number }
  | { readonly do: 'open window'; readonly stream: number; readonly bytes: number }
  | { readonly do: 'go away'; readonly last: number }
  | { readonly do: 'flood'; readonly frames: keyof typeof FLOODS }
  | { readonly do: 'pass' | 'block'; readonly ms: number }
  | {
      readonly do: 'answer all' | 'mute' | 'unmute' | 'ping' | 'turn' | 'lose' | 'end' | 'congest' | 'drain' | 'close';
    };

const stream = fc.nat({ max: 30 });
const KINDS: readonly fc.Arbitrary<Step>[] = [
  fc.record({
    do: fc.constant('call' as const),
    count: fc.constantFrom(1, 1, 3, 12),
    sent: fc.boolean(),
    timeoutMs: fc.constantFrom(0, 100, 500, 2_000),
    signal: fc.integer({ min: -1, max: SIGNALS - 1 }),
    bytes: fc.constantFrom(1, 1, 40, 70_000),
  }),
  fc.record({ do: fc.constant('abort' as const), signal: fc.nat({ max: SIGNALS - 1 }) }),
  fc.record({
    do: fc.constantFrom('answer' as const, 'answer' as const, 'answer again' as const),
    stream,
    cut: fc.nat({ max: 40 }),
  }),
  fc.record({ do: fc.constant('reset' as const), stream, code: fc.nat({ max: 13 }) }),
  fc.record({
    do: fc.constant('settings' as const),
    streams: fc.constantFrom(0, 1, 1, 2, 10, 100),
    window: fc.constantFrom(0, 1, 20, 65_535, 1_000_000),
  }),
  fc.record({ do: fc.constant('open window' as const), stream, bytes: fc.constantFrom(1, 10, 100_000) }),
  fc.record({ do: fc.constant('go away' as const), last: stream }),
  fc.record({
    do: fc.constantFrom('pass' as const, 'block' as const),
    ms: fc.constantFrom(10, 100, 500, 1_000, 3_000, 9_000, 20_000),
  }),
  fc.record({ do: fc.constantFrom('turn' as const, 'ping' as const, 'mute' as const, 'unmute' as const) }),
  fc.record({ do: fc.constantFrom('congest' as const, 'drain' as const, 'turn' as const) }),
  fc.record({ do: fc.constantFrom('lose' as const, 'end' as const, ...Array<'answer all'>(6).fill('answer all')) }),
  fc.record({ do: fc.constantFrom('close' as const, ...Array<'turn'>(9).fill('turn')) }),
];
/** Some scripts begin with a call that is aborted, a time without calls, and another call. */
const aborted = fc
  .tuple(fc.constantFrom(10, 500, 1_000), fc.constantFrom(10, 1_000, 3_000), fc.constantFrom(1_000, 3_000))
  .map((pauses): Step[] => {
    const call: Step = { do: 'call', count: 1, sent: true, timeoutMs: 0, signal: 0, bytes: 1 };
    const [before, idle, after] = pauses.map((ms): Step => ({ do: 'pass', ms })) as [Step, Step, Step];
    return [call, before, { do: 'abort', signal: 0 }, idle, call, after];
  });
/** Only some scripts end with a flood, because a flood has so many frames that it makes a run slow. */
const flood = fc
  .constantFrom(...(Object.keys(FLOODS) as (keyof typeof FLOODS)[]))
  .map((frames) => [{ do: 'flood' as const, frames }]);
const inputs: fc.Arbitrary<readonly Step[]> = fc
  .tuple(
    fc.oneof({ weight: 9, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: aborted }),
    script(KINDS, 40),
    fc.oneof({ weight: 30, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: flood }),
  )
  .map(([beginning, steps, end]) => [...beginning, ...steps, ...end]);

fuzz<readonly Step[]>({
  target: 'http2-peer',
  property: 'every call ends once, with an outcome that agrees with what the peer received, when the peer obeys HTTP/2',
  inputs,
  runs: 800,
  parts: { answered: 0.15, unanswered: 0.1 },
  check: playing<Step>((clock) => new PeerPlay(clock)),
});

interface Tracked {
  readonly token: string;
  readonly end: Promise<'ok' | EtcdError>;
}

class PeerPlay implements Play<Step> {
  readonly #clock: VirtualClock;
  readonly #peer: Http2Peer;
  readonly #calls: Tracked[] = [];
  /** For each call, by its token: when the call last opened a stream, on the virtual clock. */
  readonly #openedAt = new Map<string, number>();
  readonly #violations: string[] = [];
  readonly #signals = Array.from({ length: SIGNALS }, () => new AbortController());
  /** For each connection: the last stream identifier in the peer's latest GOAWAY. */
  readonly #goneAway = new Map<PeerConnection, number>();
  /** When the peer last sent bytes on each connection, on the virtual clock. */
  readonly #spokeAt = new Map<PeerConnection, number>();
  #answersPings = true;
  #isClosing = false;
  /** Whether the event loop was blocked and the timers that became due have not run yet. */
  #blocked = false;
  /** When the last block of the event loop ended, on the virtual clock. */
  #blockedUntil = 0;
  /**
   * Connections on which the peer has answered a PING. On these connections, the client may open streams after a
   * timeout, because etcd's limit on pings may not allow it to send another PING yet.
   */
  readonly #probed = new Set<PeerConnection>();
  /** For each connection: when a call first timed out although the peer sent nothing since the call's stream opened. */
  readonly #evidenceAt = new Map<PeerConnection, number>();

  constructor(clock: VirtualClock) {
    this.#clock = clock;
    this.#peer = new Http2Peer({
      pingIntervalMs,
      pingTimeoutMs,
      ownClose: true,
      play: (connection) => {
        this.#spokeAt.set(connection, clock.now);
        connection.onPing = (payload) => {
          if (!this.#answersPings) return;
          this.#probed.add(connection);
          this.#send(connection, ping(payload, FLAG.ACK));
        };
      },
    });
  }

  async step(step: Step): Promise<void> {
    switch (step.do) {
      case 'call':
        for (let calls = 0; calls < step.count; calls += 1) this.#call(step);
        return step.sent ? turn() : undefined;
      case 'abort':
        this.#signals[step.signal]?.abort();
        this.#signals[step.signal] = new AbortController();
        return;
      case 'pass':
        this.#reportEnds();
        await this.#clock.pass(step.ms);
        this.#blocked = false;
        return this.#checkLeft();
      case 'block':
        this.#blocked = true;
        this.#clock.block(step.ms);
        this.#blockedUntil = this.#clock.now;
        return;
      case 'turn':
        this.#reportEnds();
        return turn();
      case 'mute':
      case 'unmute':
        this.#answersPings = step.do === 'unmute';
        return;
      case 'close':
        return this.#close();
      default: {
        const connection = this.#peer.connections.at(-1);
        if (connection === undefined || connection.hasEnded || connection.frames.length === 0) return;
        this.#peerStep(step, connection);
      }
    }
  }

  async end(): Promise<string> {
    for (let rounds = 0; rounds < 3; rounds += 1) await turn();
    await this.#close();
    for (let rounds = 0; rounds < 3; rounds += 1) await turn();
    let answered = 0;
    for (const call of this.#calls) {
      const end = await Promise.race([call.end, turn().then(() => undefined)]);
      if (end === 'ok') answered += 1;
      this.#checkEnd(call, end);
    }
    expect([...this.#violations, ...this.#peer.breaches]).toEqual([]);
    return answered > 0 ? 'answered' : 'unanswered';
  }

  /** Tells the client that its connections have ended. */
  #reportEnds(): void {
    for (const connection of this.#peer.connections) if (connection.hasEnded) connection.lose('lost');
  }

  async #close(): Promise<void> {
    this.#isClosing = true;
    await this.#peer.transport.close();
  }

  #peerStep(step: Step, connection: PeerConnection): void {
    const ids = connection.streamIds;
    const idOf = (index: number): number => ids[index % Math.max(1, ids.length)] ?? 0;
    switch (step.do) {
      case 'answer':
      case 'answer again': {
        const open = ids.filter((id) => connection.rules.isOpen(id));
        const id = step.do === 'answer' ? open[step.stream % Math.max(1, open.length)] : idOf(step.stream);
        if (id === undefined || id === 0) return;
        const bytes = rangeAnswer(id);
        this.#send(connection, bytes.subarray(0, step.cut), bytes.subarray(step.cut));
        return;
      }
      case 'answer all':
        for (const id of ids) if (connection.rules.isOpen(id)) this.#send(connection, rangeAnswer(id));
        return;
      case 'reset':
        if (idOf(step.stream) > 0) this.#send(connection, rstStream(idOf(step.stream), step.code));
        return;
      case 'settings':
        return this.#send(
          connection,
          settings({ MAX_CONCURRENT_STREAMS: step.streams, INITIAL_WINDOW_SIZE: step.window }),
        );
      case 'open window': {
        const id = step.stream % 2 === 0 ? 0 : idOf(step.stream);
        return this.#send(connection, windowUpdate(id, step.bytes));
      }
      case 'go away': {
        const last = Math.min(idOf(step.last), this.#goneAway.get(connection) ?? Number.POSITIVE_INFINITY);
        this.#goneAway.set(connection, last);
        return this.#send(connection, goAway(last));
      }
      case 'ping':
        return this.#send(connection, ping(words(1, 2)));
      case 'lose':
        return connection.lose('lost');
      case 'end':
        connection.hasEnded = true;
        return;
      case 'congest':
        connection.roomy = false;
        return;
      case 'drain':
        return connection.drain();
      case 'flood':
        this.#send(connection, Buffer.concat(Array<Buffer>(FLOOD_FRAMES).fill(FLOODS[step.frames])));
        if (!connection.closed) this.#violations.push(`a flood of ${step.frames} did not close the connection`);
    }
  }

  #call({ timeoutMs, signal, bytes }: Step & { readonly do: 'call' }): void {
    const token = `${this.#calls.length}`;
    const deadline = timeoutMs === 0 ? Number.POSITIVE_INFINITY : this.#clock.now + timeoutMs;
    const controller = this.#signals[signal];
    let opened: { readonly connection: PeerConnection; readonly at: number } | undefined;
    const call = this.#peer.transport.unary({
      method: methods.kv.put,
      request: { key: Buffer.from('a'), value: new Uint8Array(bytes) },
      metadata: { token },
      timeoutMs,
      deadline,
      signal: controller?.signal,
      observer: {
        sent: () => {
          opened = { connection: this.#peer.connection, at: this.#clock.now };
          this.#openedAt.set(token, opened.at);
          this.#checkEvidence(opened.connection);
          if (this.#isClosing) this.#violations.push(`call ${token} opens a stream after close()`);
          if (this.#clock.now >= deadline) this.#violations.push(`call ${token} opens a stream past its deadline`);
          if (controller?.signal.aborted)
            this.#violations.push(`call ${token} opens a stream although its signal has aborted`);
        },
      },
    });
    const end = call.then(
      () => 'ok' as const,
      (error: unknown) => {
        if (!(error instanceof EtcdError)) throw error;
        if (error.reason === 'DeadlineExceeded' && opened !== undefined) this.#expired(opened.connection, opened.at);
        return error;
      },
    );
    this.#calls.push({ token, end });
  }

  #checkEnd({ token }: Tracked, end: 'ok' | EtcdError | undefined): void {
    const where = this.#peer.connections.flatMap((connection) =>
      [...connection.rules.requests.values()]
        .filter(({ headers }) => headers.token === token)
        .map(({ id }) => ({ isCovered: id <= (this.#goneAway.get(connection) ?? Number.POSITIVE_INFINITY) })),
    );
    const outcome = end instanceof EtcdError ? end.outcome : end;
    if (outcome === undefined) this.#violations.push(`call ${token} does not end`);
    if (outcome === 'not-sent' && where.some(({ isCovered }) => isCovered))
      this.#violations.push(`call ${token} ends as not sent, although the peer received it`);
    // If the client ends a call in the turn in which it opens the stream, the frames of the call are not yet written.
    const mayHaveLeft =
      end instanceof EtcdError &&
      ['Canceled', 'DeadlineExceeded', 'ClientClosed'].includes(end.reason) &&
      this.#peer.connections.some(({ hasEnded }) => hasEnded);
    if ((outcome === 'unknown' || outcome === 'ok') && where.length === 0 && !mayHaveLeft)
      this.#violations.push(`call ${token} ends as ${outcome}, although the peer never received it`);
  }

  #expired(connection: PeerConnection, openedAt: number): void {
    if ((this.#spokeAt.get(connection) as number) > openedAt || this.#probed.has(connection)) return;
    if (!this.#evidenceAt.has(connection)) this.#evidenceAt.set(connection, this.#clock.now);
  }

  /**
   * Called when a call opens a stream. Records a violation if a call timed out on this connection `SUSPECT_WITHIN_MS`
   * ago or earlier and the peer has been silent since.
   */
  #checkEvidence(connection: PeerConnection): void {
    const at = this.#evidenceAt.get(connection);
    if (at === undefined || this.#blocked || this.#clock.now - at < SUSPECT_WITHIN_MS) return;
    this.#violations.push(
      `a call opens a stream ${this.#clock.now - at} ms after a call on the connection timed out in silence`,
    );
  }

  /** Called when all due timers have run. Records a violation for each open connection that was silent for too long. */
  #checkLeft(): void {
    for (const connection of this.#peer.connections) {
      const silentMs = this.#clock.now - (this.#spokeAt.get(connection) as number);
      const requests = [...connection.rules.requests.values()].filter(({ id }) => connection.rules.isOpen(id));
      const oldest = Math.min(...requests.map(({ headers }) => this.#openedAt.get(headers.token ?? '') as number));
      const sinceMs = Math.min(silentMs, this.#clock.now - oldest, this.#clock.now - this.#blockedUntil);
      if (connection.closed || requests.length === 0) continue;
      if (sinceMs >= PROBED_WITHIN_MS && probes(connection) === 0)
        this.#violations.push(`a connection with open streams was silent for ${sinceMs} ms, and was never probed`);
      if (sinceMs < LEFT_WITHIN_MS) continue;
      this.#violations.push(`a connection with open streams was silent for ${silentMs} ms, and is still open`);
    }
  }

  #send(connection: PeerConnection, ...parts: readonly Buffer[]): void {
    this.#spokeAt.set(connection, this.#clock.now);
    this.#evidenceAt.delete(connection);
    for (const part of parts) if (part.length > 0) connection.send(part);
  }
}
