import { Client, type ClientOptions } from '../../client.js';
import type { WireFrame, WireMessage } from '../../inspect/frames.js';
import { prefix } from '../../kv/keys.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protobuf/json.js';
import { monotonicMs } from '../../runtime/timers.js';
import { fieldsOf } from '../frames.js';
import { type ContenderOf, sentenceFor, THIS_CLIENT } from './sentences.js';

/** The queue of a lock after a change. */
export interface QueueState {
  /** Milliseconds on the monotonic clock. */
  readonly atMs: number;
  readonly revision: bigint;
  /** The change that led to this state; undefined for the initial state. */
  readonly change: { readonly type: 'enters' | 'leaves'; readonly key: string } | undefined;
  /** The queue keys in the order of the queue. */
  readonly queue: readonly string[];
}

/** The states of a queue since the start of the observation. */
export interface QueueObserver {
  readonly states: readonly QueueState[];
  stop(): Promise<void>;
}

/** Watches the queue of a lock with a separate client, so that the trace shows the other contenders too. */
export async function observeQueue(options: ClientOptions, name: string): Promise<QueueObserver> {
  const states: QueueState[] = [];
  const client = new Client(options);
  const { header, kvs } = await client.range(prefix(`${name}/`), { keysOnly: true });
  const createRevisions = new Map(kvs.map((kv) => [kv.keyText(), kv.createRevision]));
  const note = (revision: bigint, change: QueueState['change']): void => {
    const queue = [...createRevisions].sort(([, a], [, b]) => (a < b ? -1 : 1)).map(([key]) => key);
    states.push({ atMs: monotonicMs(), revision, change, queue });
  };
  const follow = async (): Promise<void> => {
    for await (const event of client.watch(prefix(`${name}/`), { startRevision: header.revision + 1n })) {
      const key = event.keyText();
      const isKnown = createRevisions.has(key);
      if (event.type === 'put') createRevisions.set(key, event.kv.createRevision);
      else createRevisions.delete(key);
      // A put of an existing key, such as a proclamation, does not change the queue.
      if (event.type === 'delete' || !isKnown)
        note(event.modRevision, { type: event.type === 'put' ? 'enters' : 'leaves', key });
    }
  };
  note(header.revision, undefined);
  // The watch rejects when the client closes. If the watch fails before that, the rest of the trace is still useful.
  follow().catch(() => {});
  return { states, stop: () => client.close() };
}

/** A column of the diagram: the traced client, etcd or another contender. */
interface Participant {
  readonly name: string;
  /** The queue key of a contender. */
  readonly key: string | undefined;
}

/** An arrow of the diagram. */
export interface Step {
  /** Milliseconds on the monotonic clock. */
  readonly atMs: number;
  /** Index of the participant at the start of the arrow. */
  readonly from: number;
  /** Index of the participant at the end of the arrow. */
  readonly to: number;
  readonly label: string;
  /** `seen` stands for a change that another contender made and that the `QueueObserver` has seen. */
  readonly kind: 'message' | 'frame' | 'seen';
  readonly frame: WireFrame | undefined;
  readonly message: WireMessage | undefined;
  /** The queue keys at this time, in the order of the queue. */
  readonly queue: readonly string[];
}

export interface Story {
  readonly participants: readonly Participant[];
  readonly steps: readonly Step[];
  readonly states: readonly QueueState[];
  readonly ownKeys: ReadonlySet<string>;
}

const [CLIENT, ETCD] = [0, 1];

interface FrameWithFields {
  readonly frame: WireFrame;
  readonly messages: readonly { readonly message: WireMessage; readonly fields: JsonObject }[];
}

/** Combines the frames of the traced client with the observed states of the queue, ordered by time. */
export function storyOf(wireFrames: readonly WireFrame[], observed: readonly QueueState[]): Story {
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
  const participants: Participant[] = [
    { name: THIS_CLIENT, key: [...ownKeys][0] },
    { name: 'etcd', key: undefined },
    ...others.map((key, index) => ({ name: `contender ${index + 1}`, key })),
  ];
  const indexOf = (key: string): number => participants.findIndex((each) => each.key === key);
  const contenderOf: ContenderOf = (key) => (ownKeys.has(key) ? THIS_CLIENT : participants[indexOf(key)]?.name);
  const queueAt = (atMs: number): readonly string[] => states.findLast((state) => state.atMs <= atMs)?.queue ?? [];
  // Add the observed changes before the messages. The sort below is stable, so a change precedes a message that has the
  // same time.
  const steps: Step[] = [];
  for (const { atMs, change, queue } of states) {
    if (change === undefined || ownKeys.has(change.key)) continue;
    const [from, to, label] = [indexOf(change.key), ETCD, `${change.type} the queue`];
    steps.push({ atMs, from, to, label, kind: 'seen', frame: undefined, message: undefined, queue });
  }
  /** The latest request of each stream. */
  const requests = new Map<string, JsonObject>();
  for (const each of frames) steps.push(...stepsOf(each, queueAt(each.frame.atMs), contenderOf, requests));
  return { participants, steps: steps.sort((a, b) => a.atMs - b.atMs), states, ownKeys };
}

function withFields(frame: WireFrame): FrameWithFields {
  const messages = frame.detail.kind === 'data' ? frame.detail.messages : [];
  return { frame, messages: messages.map((message) => ({ message, fields: fieldsOf(message) })) };
}

function stepsOf(
  { frame, messages }: FrameWithFields,
  queue: readonly string[],
  contenderOf: ContenderOf,
  requests: Map<string, JsonObject>,
): Step[] {
  const stream = `${frame.connection}:${frame.streamId}`;
  const isSent = frame.direction === 'sent';
  const common = { atMs: frame.atMs, from: isSent ? CLIENT : ETCD, to: isSent ? ETCD : CLIENT, frame, queue };
  if (messages.length === 0)
    return [{ ...common, label: [frame.type, ...frame.flags].join(' '), kind: 'frame', message: undefined }];
  return messages.map(({ message, fields }) => {
    const label = sentenceFor(message, fields, contenderOf, requests.get(stream));
    if (isSent) requests.set(stream, fields);
    return { ...common, label, kind: 'message', message };
  });
}

/** Returns the time when the traced client first received this or a later store revision; `Infinity` if never. */
function learnedAtMs(frames: readonly FrameWithFields[], revision: bigint): number {
  const found = frames.find(
    ({ frame, messages }) =>
      frame.direction === 'received' && messages.some(({ fields }) => revisionIn(fields) >= revision),
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
