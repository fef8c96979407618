import type { WireFrame, WireMessage } from '../../inspect/frame.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protobuf/json.js';
import { fieldsOf } from '../frame-text.js';
import { gloss, ME, type NameOf } from './gloss.js';
import type { QueueState } from './queue-observer.js';

/** Who takes part: a column of the diagram each. */
interface Lane {
  readonly name: string;
  /** Of a contender, the key that stands for it. */
  readonly key: string | undefined;
}

/** One thing that happened, from one to another. */
export interface Step {
  readonly atMs: number;
  readonly from: number;
  readonly to: number;
  readonly label: string;
  /** `seen`: not of this client, but told by etcd to who watched. */
  readonly kind: 'message' | 'frame' | 'seen';
  readonly frame: WireFrame | undefined;
  readonly message: WireMessage | undefined;
  /** The queue then, first come first. */
  readonly line: readonly string[];
}

export interface Story {
  readonly lanes: readonly Lane[];
  readonly steps: readonly Step[];
  readonly states: readonly QueueState[];
  readonly ownKeys: ReadonlySet<string>;
}

const [CLIENT, ETCD] = [0, 1];

/** A frame, with what its messages say. */
interface ReadFrame {
  readonly frame: WireFrame;
  readonly messages: readonly { readonly message: WireMessage; readonly fields: JsonObject }[];
}

/** Puts in order what was told of the wire and what was seen of the queue. */
export function storyOf(wireFrames: readonly WireFrame[], seen: readonly QueueState[]): Story {
  const frames = wireFrames.map(read);
  const ownPuts = new Set(
    frames
      .filter(({ frame }) => frame.direction === 'sent')
      .flatMap(({ messages }) => messages.flatMap(({ fields }) => putKeys(fields))),
  );
  const states = seen.map((state) => ({ ...state, atMs: Math.min(state.atMs, heardAtMs(frames, state.revision)) }));
  const contenders = [...new Set(states.flatMap(({ change, line }) => [...line, ...(change ? [change.key] : [])]))];
  const ownKeys = new Set(contenders.filter((key) => ownPuts.has(key)));
  const others = contenders.filter((key) => !ownKeys.has(key));
  const lanes: Lane[] = [
    { name: 'this client', key: [...ownKeys][0] },
    { name: 'etcd', key: undefined },
    ...others.map((key, index) => ({ name: `contender ${index + 1}`, key })),
  ];
  const laneOf = (key: string): number => lanes.findIndex((lane) => lane.key === key);
  const nameOf: NameOf = (key) => (ownKeys.has(key) ? ME : lanes[laneOf(key)]?.name);
  const lineAt = (atMs: number): readonly string[] => states.findLast((state) => state.atMs <= atMs)?.line ?? [];
  // Seen first, so that what was heard at the same time comes after what it tells of.
  const steps: Step[] = [];
  for (const { atMs, change, line } of states) {
    if (change === undefined || ownKeys.has(change.key)) continue;
    const label = change.type === 'enters' ? 'gets in line' : 'leaves';
    const [from, to] = [laneOf(change.key), ETCD];
    steps.push({ atMs, from, to, label, kind: 'seen', frame: undefined, message: undefined, line });
  }
  const asked = new Map<string, JsonObject>();
  for (const each of frames) steps.push(...stepsOf(each, lineAt(each.frame.atMs), nameOf, asked));
  return { lanes, steps: steps.sort((a, b) => a.atMs - b.atMs), states, ownKeys };
}

function read(frame: WireFrame): ReadFrame {
  const messages = frame.detail.kind === 'data' ? frame.detail.messages : [];
  return { frame, messages: messages.map((message) => ({ message, fields: fieldsOf(message) })) };
}

/** `asked`: the latest request of each stream. */
function stepsOf(
  { frame, messages }: ReadFrame,
  line: readonly string[],
  nameOf: NameOf,
  asked: Map<string, JsonObject>,
): Step[] {
  const stream = `${frame.connection}:${frame.streamId}`;
  const [from, to] = frame.direction === 'sent' ? [CLIENT, ETCD] : [ETCD, CLIENT];
  const { atMs } = frame;
  if (messages.length === 0) {
    const label = [frame.type, ...frame.flags].join(' ');
    return [{ atMs, from, to, label, kind: 'frame', frame, message: undefined, line }];
  }
  return messages.map(({ message, fields }) => {
    const label = gloss(message, fields, nameOf, asked.get(stream));
    if (frame.direction === 'sent') asked.set(stream, fields);
    return { atMs, from, to, label, kind: 'message', frame, message, line };
  });
}

/** What the client has heard of it has happened, though who watched for us may hear of it later. */
function heardAtMs(frames: readonly ReadFrame[], revision: bigint): number {
  const heard = frames.find(
    ({ frame, messages }) =>
      frame.direction === 'received' && messages.some(({ fields }) => revisionIn(fields) >= revision),
  );
  return heard === undefined ? Number.POSITIVE_INFINITY : heard.frame.atMs;
}

function revisionIn({ header }: JsonObject): bigint {
  return isJsonObject(header) ? BigInt(String(header.revision ?? 0)) : 0n;
}

/** The keys that are put by a request. */
function putKeys(json: JsonObject): readonly string[] {
  return Object.entries(json).flatMap(([name, value]) => {
    if (name === 'request_put' || name === 'put') return [String((value as JsonObject).key)];
    const within: readonly JsonValue[] = Array.isArray(value) ? value : [value];
    return within.flatMap((each) => (typeof each === 'object' && each !== null ? putKeys(each as JsonObject) : []));
  });
}
