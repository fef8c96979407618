import {
  headerRevision,
  type JsonObject,
  type JsonValue,
  methodByPath,
  watchMethod,
} from '../../../../src/internal.js';
import { type FrameWithFields, fieldsOf } from '../frames.js';
import { headerIn, messagesIn, pathOf, streamOf, type WireFrame, type WireMessage } from '../inspect/index.js';
import type { Lanes } from './lanes.js';
import type { QueueState } from './queue-observer.js';
import { type Queue, sentenceFor, THIS_CLIENT } from './sentences.js';
import { type ShownChange, ShownState } from './shown-state.js';
import { type Call, canceledWatch, failureIn, grpcTimeoutMs, unanswered, type Verdict } from './verdict.js';
import { FlowWindows } from './windows.js';

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
   * `failure` is a frame that ends a call or the connection with an error, or that could not be decoded. `seen` is a change that another contender
   * made and that the `QueueObserver` has seen. `held` is the moment when the traced client gets the lock. `frame` is
   * any other frame in which no message ends.
   */
  readonly kind: 'message' | 'failure' | 'frame' | 'seen' | 'held';
  readonly frame: WireFrame | undefined;
  /** The connection and the stream: see `streamOf`. Empty if the step has none. */
  readonly stream: string;
  readonly message: WireMessage | undefined;
  /** What the traffic shows of the outcome. Undefined unless the step is the failure of a call. */
  readonly verdict: Verdict | undefined;
  /** How the frame changes the flow-control windows, as a sentence. Empty if it changes none. */
  readonly windows: string;
  /** What the step shows of the store, the leases and the watches. */
  readonly changes: readonly ShownChange[];
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

/** When each connection has closed, by its number, in milliseconds on the monotonic clock. */
export type Closings = ReadonlyMap<number, number>;

/**
 * Combines the frames of the traced client with the observed states of the queue, ordered by time. `isWhole` tells
 * whether `wireFrames` contains all frames of the client. With `lanes`, each connection is a participant. The calls
 * that are open at one of the `closings` have failed.
 */
export function storyOf(
  wireFrames: readonly WireFrame[],
  observed: readonly QueueState[],
  prize: Story['prize'],
  { isWhole = true, lanes = undefined as Lanes | undefined, closings = new Map() as Closings } = {},
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
  const observedStep = {
    protocol: '',
    stream: '',
    frame: undefined,
    message: undefined,
    verdict: undefined,
    windows: '',
    changes: [],
  };
  for (const { atMs, change, queue } of states) {
    if (change === undefined || ownKeys.has(change.key)) continue;
    const [from, to, label] = [indexOf(change.key), etcd, `${change.type} the queue`];
    steps.push({ ...observedStep, atMs, from, to, label, kind: 'seen', queue });
  }
  const describer = new FrameDescriber(queueOfLock, isWhole);
  const shown = new ShownState();
  for (const each of frames) {
    const { frame } = each;
    const client = clientOf(frame.connection);
    const [from, to] = frame.direction === 'sent' ? [client, etcd] : [etcd, client];
    const queue = queueAt(frame.atMs);
    const changes = shown.follow(each);
    for (const [index, description] of describer.describe(each).entries())
      steps.push({ ...description, atMs: frame.atMs, from, to, frame, changes: changes[index] ?? [], queue });
  }
  for (const [connection, atMs] of closings) {
    const [from, to, queue] = [etcd, clientOf(connection), queueAt(atMs)];
    const closed = { ...observedStep, label: 'the connection closes', kind: 'frame' } as const;
    for (const description of [closed, ...describer.closed(connection, atMs)]) {
      const changes = description === closed ? shown.closed(connection) : [];
      steps.push({ ...description, atMs, from, to, frame: undefined, changes, queue });
    }
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

/** A call, and the fields of its latest request. */
interface OpenCall extends Call {
  readonly fields: JsonObject;
}

/** The calls on a connection. */
interface ConnectionCalls {
  /** The call of each open stream. For a request of HTTP/1.1 that is no call, the method is the request line. */
  readonly open: Map<number, OpenCall>;
  /** The last stream that the client has reset. 0 before a reset. */
  lastReset: number;
  /** The last stream that GOAWAY has named. Undefined before GOAWAY. */
  lastAccepted: number | undefined;
}

/** Decodes the messages of a frame. */
export function withFields(frame: WireFrame): FrameWithFields {
  return { frame, messages: messagesIn(frame).map((message) => ({ message, fields: fieldsOf(message) })) };
}

/** What a frame means: one description for each message that ends in it, or else one for the frame itself. */
type Description = Pick<Step, 'label' | 'protocol' | 'stream' | 'message' | 'verdict' | 'windows'> & {
  readonly kind: 'message' | 'failure' | 'frame';
};

/** Describes the frames of a client, in their order. */
export class FrameDescriber {
  readonly #queue: Queue;
  /** The connections with open calls, resets or GOAWAY, by their numbers. */
  readonly #connections = new Map<number, ConnectionCalls>();
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
    const connection = this.#connectionOf(frame.connection);
    const call = connection.open.get(frame.streamId);
    // After the client has reset a stream, the server's frames that were on their way still arrive.
    const isLate = call === undefined && frame.streamId !== 0 && frame.streamId <= connection.lastReset;
    if (isSent) this.#sent(frame, messages, connection);
    else this.#received(frame, connection);
    const { open, lastReset, lastAccepted } = connection;
    if (open.size > 0 || lastReset > 0 || lastAccepted !== undefined)
      this.#connections.set(frame.connection, connection);
    else this.#connections.delete(frame.connection);
    const common = { stream, message: undefined, verdict: undefined, windows };
    if (messages.length === 0 || frame.undecoded !== undefined) {
      const failure = isLate ? undefined : failureIn(frame, call);
      if (failure !== undefined) {
        const protocol = protocolOf(frame, call?.method ?? frame.type, call);
        return [{ ...common, ...failure, protocol: withOutcome(protocol, failure.verdict), kind: 'failure' }];
      }
      const name = frame.detail.kind === 'http1' ? `${frame.type} ${frame.detail.line}` : frame.type;
      return [{ ...common, label: [name, ...frame.flags].join(' ').trim(), protocol: '', kind: 'frame' }];
    }
    return messages.map(({ message, fields }) => {
      const failure = isSent ? undefined : canceledWatch(fields);
      const label = failure?.label ?? sentenceFor(message, fields, this.#queue, call?.fields);
      const kind = failure === undefined ? 'message' : 'failure';
      const protocol = protocolOf(frame, message.method, call, headerRevision(fields));
      return { ...common, verdict: failure?.verdict, label, protocol, kind, message };
    });
  }

  /** Describes the failures of the calls that are open when their connection closes. */
  closed(connection: number, atMs: number): readonly Description[] {
    const descriptions: Description[] = [];
    const { open, lastAccepted } = this.#connectionOf(connection);
    this.#connections.delete(connection);
    for (const [streamId, call] of open) {
      if (call.isStreaming) continue;
      const { label, verdict } = unanswered(call, streamId > (lastAccepted ?? streamId));
      const frame = { streamId, atMs, direction: 'received' } as const;
      const stream = streamOf({ connection, streamId });
      const protocol = withOutcome(protocolOf(frame, call.method, call), verdict);
      descriptions.push({ label, verdict, protocol, stream, kind: 'failure', message: undefined, windows: '' });
    }
    return descriptions;
  }

  #connectionOf(connection: number): ConnectionCalls {
    return this.#connections.get(connection) ?? { open: new Map(), lastReset: 0, lastAccepted: undefined };
  }

  #sent(frame: WireFrame, messages: FrameWithFields['messages'], connection: ConnectionCalls): void {
    const { detail, atMs, streamId } = frame;
    if (frame.type === 'RST_STREAM') {
      connection.open.delete(streamId);
      connection.lastReset = Math.max(connection.lastReset, streamId);
      return;
    }
    const line = detail.kind === 'http1' && detail.line !== '' ? detail.line : undefined;
    const method = headerIn(frame, ':path') ?? messages[0]?.message.method ?? line;
    const begun = connection.open.get(streamId);
    let call = begun;
    // The end of a long request of HTTP/1.1 tells its method. Its first frame has only the request line.
    if (method !== undefined && (begun === undefined || (detail.kind === 'http1' && begun.method !== method))) {
      const isStreaming = methodByPath.get(pathOf(method))?.kind !== 'unary';
      const timeoutMs = grpcTimeoutMs(headerIn(frame, 'grpc-timeout'));
      call = { method, isStreaming, hasLeft: false, hasAnswer: false, atMs, timeoutMs, fields: {} };
    }
    if (call === undefined) return;
    const fields = messages.at(-1)?.fields ?? call.fields;
    const hasLeft = call.hasLeft || messages.length > 0;
    // A stream answers its latest request.
    const isLater = messages.length > 0 && (call.isStreaming || !call.hasLeft);
    connection.open.set(streamId, { ...call, fields, hasLeft, atMs: isLater ? atMs : call.atMs });
  }

  #received(frame: WireFrame, connection: ConnectionCalls): void {
    const { detail, type, flags, streamId } = frame;
    if (detail.kind === 'goAway') connection.lastAccepted = detail.lastStream;
    const call = connection.open.get(streamId);
    // A proxy that cannot reach etcd answers with another HTTP status.
    const begins = headerIn(frame, ':status') === '200' && headerIn(frame, 'grpc-status') === undefined;
    if (call !== undefined && begins) connection.open.set(streamId, { ...call, hasAnswer: true });
    const isAnswered = detail.kind === 'http1' && detail.isEnd;
    if (type === 'RST_STREAM' || flags.includes('END_STREAM') || isAnswered) connection.open.delete(streamId);
  }
}

/** Returns the frame's call in the words of the protocol. */
function protocolOf(
  { atMs, streamId, direction }: Pick<WireFrame, 'atMs' | 'streamId' | 'direction'>,
  method: string,
  call: OpenCall | undefined,
  revision = 0n,
): string {
  // A response of a watch does not answer the latest request: a stream has many watches, and events arrive at any time.
  const isAnswer = direction === 'received' && call !== undefined && method !== watchMethod.path;
  const took = isAnswer ? [`${(atMs - call.atMs).toFixed(1)} ms`] : [];
  const at = revision === 0n ? [] : [`revision ${revision}`];
  // A request of HTTP that is no call has a request line instead of a path.
  const name = method.startsWith('/') ? method.slice(method.lastIndexOf('/') + 1) : method;
  return [name, `stream ${streamId}`, ...at, ...took].join(' · ');
}

function withOutcome(protocol: string, verdict: Verdict | undefined): string {
  return verdict?.outcome === undefined ? protocol : `${protocol} · outcome ${verdict.outcome}`;
}

/**
 * Returns the time when the traced client first received this or a later store revision in a response of the methods;
 * `Infinity` if never.
 */
function learnedAtMs(frames: readonly FrameWithFields[], revision: bigint, methods = /./): number {
  const found = frames.find(
    ({ frame, messages }) =>
      frame.direction === 'received' &&
      messages.some(({ message, fields }) => methods.test(message.method) && headerRevision(fields) >= revision),
  );
  return found?.frame.atMs ?? Number.POSITIVE_INFINITY;
}

/** Returns the keys that a request puts, including puts in nested transactions. */
function putKeys(json: JsonObject): readonly string[] {
  return Object.entries(json).flatMap(([name, value]) => {
    if (name === 'request_put' || name === 'put') return [String((value as JsonObject).key)];
    const nested: readonly JsonValue[] = Array.isArray(value) ? value : [value];
    return nested.flatMap((each) => (typeof each === 'object' && each !== null ? putKeys(each as JsonObject) : []));
  });
}
