import { Client, type ClientOptions } from '../../client/client.js';
import * as watchMethods from '../../gen/methods/watch.js';
import { messagesIn, type WireFrame, type WireMessage } from '../../inspect/frames.js';
import { prefix } from '../../kv/keys.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../../reflection/json.js';
import { methodByPath } from '../../reflection/method-table.js';
import { monotonicMs, pause } from '../../runtime/timers.js';
import { fieldsOf } from '../frames.js';
import type { Lanes } from './lanes.js';
import { type Queue, sentenceFor, THIS_CLIENT } from './sentences.js';
import { FlowWindows } from './windows.js';

/** The queue of a lock after a change. */
export interface QueueState {
  /** Milliseconds on the monotonic clock. */
  readonly atMs: number;
  readonly revision: bigint;
  /** The change that led to this state; undefined for the initial state. */
  readonly change: { readonly type: 'enters' | 'leaves'; readonly key: string } | undefined;
  /** The queue keys in the order of the queue. */
  readonly queue: readonly string[];
  /** The fencing token of the holder, which is the create revision of the first key. Undefined if the queue is empty. */
  readonly token: bigint | undefined;
}

/** The states of a queue since the start of the observation. */
export interface QueueObserver {
  readonly states: readonly QueueState[];
  stop(): Promise<void>;
}

/** How long the observer waits at the end for changes that it has not seen yet, in milliseconds. */
const LAST_CHANGES_MS = 1_000;
const PROGRESS_POLL_MS = 20;

/** Watches the queue of a lock with a separate client, so that the trace shows the other contenders too. */
export async function observeQueue(options: ClientOptions, name: string): Promise<QueueObserver> {
  const states: QueueState[] = [];
  const client = new Client(options);
  const { header, kvs } = await client.range(prefix(`${name}/`), { keysOnly: true });
  const createRevisions = new Map(kvs.map((kv) => [kv.keyText(), kv.createRevision]));
  const note = (revision: bigint, change: QueueState['change']): void => {
    const sorted = [...createRevisions].sort(([, a], [, b]) => (a < b ? -1 : 1));
    states.push({ atMs: monotonicMs(), revision, change, queue: sorted.map(([key]) => key), token: sorted[0]?.[1] });
  };
  const watch = client.watch(prefix(`${name}/`), { startRevision: header.revision + 1n, progress: true });
  let seenUntil = header.revision;
  const follow = async (): Promise<void> => {
    for await (const { revision, events } of watch.batches()) {
      for (const event of events) {
        const key = event.keyText();
        const isKnown = createRevisions.has(key);
        if (event.type === 'put') createRevisions.set(key, event.kv.createRevision);
        else createRevisions.delete(key);
        // A put of an existing key, such as a proclamation, does not change the queue.
        if (event.type === 'delete' || !isKnown)
          note(event.modRevision, { type: event.type === 'put' ? 'enters' : 'leaves', key });
      }
      seenUntil = revision;
    }
  };
  note(header.revision, undefined);
  // The watch rejects when the client closes. If the watch fails before that, the rest of the trace is still useful.
  follow().catch(() => {});
  /** Waits until the observer has seen all changes that were made before the call, or `ended` aborts. */
  const seeAll = async (ended: AbortSignal): Promise<void> => {
    const last = (await client.range(prefix(`${name}/`), { countOnly: true })).header.revision;
    for (; seenUntil < last && !ended.aborted; await pause(PROGRESS_POLL_MS, ended)) watch.requestProgress();
  };
  const stop = async (): Promise<void> => {
    const ended = new AbortController();
    await Promise.race([seeAll(ended.signal).catch(() => {}), pause(LAST_CHANGES_MS, ended.signal)]);
    ended.abort();
    await client.close();
  };
  return { states, stop };
}

/** A column of the diagram: the traced client or the clients of a proxy, etcd, or another contender. */
interface Participant {
  readonly name: string;
  /** The queue key of a contender, or the address of a client of a proxy. */
  readonly key: string | undefined;
}

/** A row of the diagram: an arrow between two participants, or a dot at one of them. */
export interface Step {
  /** Milliseconds on the monotonic clock. */
  readonly atMs: number;
  /** Index of the participant at the start of the arrow. */
  readonly from: number;
  /** Index of the participant at the end of the arrow. */
  readonly to: number;
  /** The text at the arrow or the dot. */
  readonly label: string;
  /**
   * The step in the words of the protocol, such as "Txn · stream 5 · revision 13 · 0.8 ms". Empty unless the step is a
   * message or a failure.
   */
  readonly protocol: string;
  /**
   * `failure` is a frame that ends a call or the connection with an error. `seen` is a change that another contender
   * made and that the `QueueObserver` has seen. `held` is the moment when the traced client gets the lock. `frame` is
   * any other frame in which no message ends.
   */
  readonly kind: 'message' | 'failure' | 'frame' | 'seen' | 'held';
  readonly frame: WireFrame | undefined;
  readonly message: WireMessage | undefined;
  /** How the frame changes the flow-control windows, as a sentence. Empty if it changes none. */
  readonly windows: string;
  /** The queue keys at this time, in the order of the queue. */
  readonly queue: readonly string[];
}

export interface Story {
  /** The index of etcd in `participants`. */
  readonly etcd: number;
  readonly participants: readonly Participant[];
  readonly steps: readonly Step[];
  readonly states: readonly QueueState[];
  readonly ownKeys: ReadonlySet<string>;
  /** What the contenders wait for. */
  readonly prize: 'lock' | 'leadership';
}

export interface FrameWithFields {
  readonly frame: WireFrame;
  readonly messages: readonly { readonly message: WireMessage; readonly fields: JsonObject }[];
}

/**
 * Combines the frames of the traced client with the observed states of the queue, ordered by time. `isWhole` tells
 * whether `wireFrames` contains all frames of the client. With `lanes`, each connection is a participant.
 */
export function storyOf(
  wireFrames: readonly WireFrame[],
  observed: readonly QueueState[],
  prize: Story['prize'],
  { isWhole = true, lanes = undefined as Lanes | undefined } = {},
): Story {
  const frames = wireFrames.map(withFields);
  const ownPuts = new Set(
    frames
      .filter(({ frame }) => frame.direction === 'sent')
      .flatMap(({ messages }) => messages.flatMap(({ fields }) => putKeys(fields))),
  );
  // If the traced client learned of a change before the observer did, the change gets the earlier time.
  const states = observed.map((state) => ({
    ...state,
    atMs: Math.min(state.atMs, learnedAtMs(frames, state.revision)),
  }));
  const contenders = [...new Set(states.flatMap(({ change, queue }) => [...queue, ...(change ? [change.key] : [])]))];
  const ownKeys = new Set(contenders.filter((key) => ownPuts.has(key)));
  const others = contenders.filter((key) => !ownKeys.has(key));
  const columns = lanes?.columns(wireFrames);
  const clients = columns?.lanes.map(({ name, address }) => ({ name, key: address === '' ? undefined : address }));
  const clientOf = columns?.of ?? (() => 0);
  const participants: Participant[] = [
    ...(clients ?? [{ name: THIS_CLIENT, key: [...ownKeys][0] }]),
    { name: 'etcd', key: undefined },
    ...others.map((key, index) => ({ name: `contender ${index + 1}`, key })),
  ];
  const etcd = clients?.length ?? 1;
  const indexOf = (key: string): number => participants.findIndex((each) => each.key === key);
  const queueOfLock: Queue = {
    contenderOf: (key) => (ownKeys.has(key) ? THIS_CLIENT : participants[indexOf(key)]?.name),
    isPrefix: (key) => key !== '' && contenders.some((each) => each.startsWith(key)),
  };
  const queueAt = (atMs: number): readonly string[] => states.findLast((state) => state.atMs <= atMs)?.queue ?? [];
  // Add the observed changes before the messages. The sort below is stable, so a change precedes a message that has the
  // same time.
  const steps: Step[] = [];
  const observedStep = { protocol: '', frame: undefined, message: undefined, windows: '' };
  for (const { atMs, change, queue } of states) {
    if (change === undefined || ownKeys.has(change.key)) continue;
    const [from, to, label] = [indexOf(change.key), etcd, `${change.type} the queue`];
    steps.push({ ...observedStep, atMs, from, to, label, kind: 'seen', queue });
  }
  const describer = new FrameDescriber(queueOfLock, isWhole);
  for (const each of frames) {
    const { frame } = each;
    const client = clientOf(frame.connection);
    const [from, to] = frame.direction === 'sent' ? [client, etcd] : [etcd, client];
    const queue = queueAt(frame.atMs);
    for (const description of describer.describe(each))
      steps.push({ ...description, atMs: frame.atMs, from, to, frame, queue });
  }
  for (const [index, { atMs: observedMs, revision, queue, token }] of states.entries()) {
    // The observer may see the change before the traced client does. The client holds the lock once it has read the
    // queue. An event or the answer to a renewal may have this revision earlier, so only responses of KV count.
    const learnedMs = learnedAtMs(frames, revision, /\.KV\//);
    const atMs = Number.isFinite(learnedMs) ? Math.max(observedMs, learnedMs) : observedMs;
    const isHolder = ownKeys.has(queue[0] ?? '');
    if (!isHolder || states[index - 1]?.queue[0] === queue[0]) continue;
    const label = `${prize.toUpperCase()} HELD, token ${token}`;
    steps.push({ ...observedStep, atMs, from: 0, to: 0, label, kind: 'held', queue });
  }
  return { etcd, participants, steps: withoutLongRuns(steps.sort((a, b) => a.atMs - b.atMs)), states, ownKeys, prize };
}

/** Maximum number of consecutive frames without a whole message. Of a longer run, the diagram shows only both ends. */
const LONGEST_RUN = 40;

/** Shortens long runs of frames. A long message may need thousands of frames. */
function withoutLongRuns(steps: readonly Step[]): readonly Step[] {
  const shown: Step[] = [];
  let run: Step[] = [];
  const endRun = (): void => {
    const half = LONGEST_RUN / 2;
    const left = run.slice(half, -half);
    const [first] = left;
    if (run.length <= LONGEST_RUN || first === undefined) shown.push(...run);
    else {
      const bytes = left.reduce((sum, { frame }) => sum + (frame?.bytes.length ?? 0), 0);
      const label = `${left.length.toLocaleString('en')} more frames, ${bytes.toLocaleString('en')} bytes`;
      shown.push(...run.slice(0, half), { ...first, label, frame: undefined }, ...run.slice(-half));
    }
    run = [];
  };
  for (const step of steps) {
    if (step.kind !== 'frame') endRun();
    (step.kind === 'frame' ? run : shown).push(step);
  }
  endRun();
  return shown;
}

/** A request, and when the client sent it, in milliseconds on the monotonic clock. */
interface Request {
  readonly fields: JsonObject;
  readonly atMs: number;
  readonly method: string;
}

/** Decodes the messages of a frame. */
export function withFields(frame: WireFrame): FrameWithFields {
  return { frame, messages: messagesIn(frame).map((message) => ({ message, fields: fieldsOf(message) })) };
}

/** Names the stream of a frame by the numbers of its connection and of the stream. */
export function streamOf({ connection, streamId }: Pick<WireFrame, 'connection' | 'streamId'>): string {
  return `${connection}:${streamId}`;
}

/** What a frame means: one description for each message that ends in it, or else one for the frame itself. */
type Description = Pick<Step, 'label' | 'protocol' | 'message' | 'windows'> & {
  readonly kind: 'message' | 'failure' | 'frame';
};

/** Describes the frames of a client, in their order. */
export class FrameDescriber {
  readonly #queue: Queue;
  /** The latest request of each stream. */
  readonly #requests = new Map<string, Request>();
  readonly #windows: FlowWindows | undefined;

  /** With `isWhole` set to false, frames are missing, so the windows are unknown. */
  constructor(queue: Queue, isWhole = true) {
    this.#queue = queue;
    this.#windows = isWhole ? new FlowWindows() : undefined;
  }

  describe({ frame, messages }: FrameWithFields): readonly Description[] {
    const stream = streamOf(frame);
    const windows = this.#windows?.follow(frame) ?? '';
    const isSent = frame.direction === 'sent';
    const request = this.#requests.get(stream);
    // Forget the request at the server's last frame. After a reset by the client, late frames may still follow.
    if (!isSent && (frame.type === 'RST_STREAM' || frame.flags.includes('END_STREAM'))) this.#requests.delete(stream);
    const isStreaming = methodByPath.get(request?.method ?? '')?.kind !== 'unary';
    const protocolOf = (method: string, revision: bigint): string => {
      // A response of a watch does not answer the latest request: a stream has many watches, and events arrive at any
      // time.
      const isAnswer = !isSent && request !== undefined && method !== watchMethods.watch.path;
      const took = isAnswer ? [`${(frame.atMs - request.atMs).toFixed(1)} ms`] : [];
      const at = revision === 0n ? [] : [`revision ${revision}`];
      return [method.slice(method.lastIndexOf('/') + 1), `stream ${frame.streamId}`, ...at, ...took].join(' · ');
    };
    if (messages.length === 0) {
      const failure = failureIn(frame, request !== undefined && isStreaming);
      const name = frame.detail.kind === 'http1' ? `${frame.type} ${frame.detail.line}` : frame.type;
      const label = failure ?? [name, ...frame.flags].join(' ').trim();
      const protocol = failure === undefined ? '' : protocolOf(request?.method ?? frame.type, 0n);
      return [{ label, protocol, kind: failure === undefined ? 'frame' : 'failure', message: undefined, windows }];
    }
    return messages.map(({ message, fields }) => {
      const label = sentenceFor(message, fields, this.#queue, request?.fields);
      if (isSent) this.#requests.set(stream, { fields, atMs: frame.atMs, method: message.method });
      return { label, protocol: protocolOf(message.method, revisionIn(fields)), kind: 'message', message, windows };
    });
  }
}

/**
 * Describes a frame that ends a call or the connection with an error. Returns undefined for other frames. `isStreaming`
 * tells whether the call has a stream of responses.
 */
function failureIn({ detail, direction }: WireFrame, isStreaming: boolean): string | undefined {
  switch (detail.kind) {
    case 'headers': {
      const headerOf = (wanted: string): string | undefined => detail.headers.find(([name]) => name === wanted)?.[1];
      const status = headerOf('grpc-status') ?? '0';
      return status === '0' ? undefined : `refused: ${headerOf('grpc-message') || `status ${status}`}`;
    }
    case 'reset':
      // A client ends a stream that it no longer needs with RST_STREAM and CANCEL.
      if (direction === 'sent' && detail.code === 'CANCEL' && isStreaming) return undefined;
      return `the stream is reset: ${detail.code}`;
    case 'http1':
      return detail.problem === '' ? undefined : `refused: ${detail.problem}`;
    case 'goAway':
      return direction === 'sent' ? undefined : `the connection is ended: ${detail.debug || detail.code}`;
    default:
      return undefined;
  }
}

/**
 * Returns the time when the traced client first received this or a later store revision in a response of the methods;
 * `Infinity` if never.
 */
function learnedAtMs(frames: readonly FrameWithFields[], revision: bigint, methods = /./): number {
  const found = frames.find(
    ({ frame, messages }) =>
      frame.direction === 'received' &&
      messages.some(({ message, fields }) => methods.test(message.method) && revisionIn(fields) >= revision),
  );
  return found?.frame.atMs ?? Number.POSITIVE_INFINITY;
}

function revisionIn({ header }: JsonObject): bigint {
  return isJsonObject(header) ? BigInt(String(header.revision ?? 0)) : 0n;
}

/** Returns the keys that a request puts, including puts in nested transactions. */
function putKeys(json: JsonObject): readonly string[] {
  return Object.entries(json).flatMap(([name, value]) => {
    if (name === 'request_put' || name === 'put') return [String((value as JsonObject).key)];
    const nested: readonly JsonValue[] = Array.isArray(value) ? value : [value];
    return nested.flatMap((each) => (typeof each === 'object' && each !== null ? putKeys(each as JsonObject) : []));
  });
}
