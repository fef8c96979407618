/** A message in protobuf's JSON with the names of the .proto file. */
export interface RecordedMessage {
  readonly [field: string]: RecordedValue;
}

/** A value in a `RecordedMessage`. Bytes are text, or `base64:` and base64. 64-bit integers are strings. */
export type RecordedValue = null | boolean | number | string | readonly RecordedValue[] | RecordedMessage;

/**
 * What clients asked of etcd, and what etcd answered, in an order in which one server can repeat it. `etcdwire replay
 * --test` makes it from a recording of `etcdwire proxy`.
 */
export interface Recording {
  /** The state of etcd before the first step, as far as the answers show it. */
  readonly before: RecordedState;
  readonly steps: readonly RecordedStep[];
}

/** The state of etcd before a recording. */
export interface RecordedState {
  readonly revision: number;
  /** Versions of keys, as `mvccpb.KeyValue`. One without a create revision is a deletion. */
  readonly keys?: readonly RecordedMessage[] | undefined;
  /** The leases: their IDs in hexadecimal, and their TTLs in seconds. */
  readonly leases?: Readonly<Record<string, number>> | undefined;
  /** The users that log in. Authentication is enabled if the list is set. */
  readonly users?: readonly string[] | undefined;
}

/** A step of a recording. */
export type RecordedStep = CallStep | OpenStep | StreamStep | EventStep;

interface StepTime {
  /** Milliseconds since the beginning of the recording. */
  readonly ms: number;
}

/** A call with one request and one answer. */
export interface CallStep extends StepTime {
  /** The RPC, such as `KV/Put`. */
  readonly call: string;
  /** The user whose token the call carries. */
  readonly user?: string | undefined;
  readonly request: RecordedMessage;
  /** The answer. Undefined if the call failed, or if the recording contains no answer. */
  readonly answer?: RecordedMessage | undefined;
  /** The status code and the message of a call that failed, such as `NotFound: etcdserver: requested lease not found`. */
  readonly error?: string | undefined;
}

/** The beginning of a stream of messages, or of a call that other calls overtake, such as a waiting `Lock`. */
export interface OpenStep extends StepTime {
  /** The RPC, such as `Watch/Watch`. */
  readonly open: string;
  /** The number of the stream in later steps. */
  readonly stream: number;
  /** The user whose token the stream carries. */
  readonly user?: string | undefined;
}

/** A message on a stream, or the end of the stream. Exactly one of `send`, `receive`, `end` and `ended` is set. */
export interface StreamStep extends StepTime {
  readonly stream: number;
  readonly send?: RecordedMessage | undefined;
  readonly receive?: RecordedMessage | undefined;
  /** The client half-closes or cancels the stream. */
  readonly end?: 'half-close' | 'cancel' | undefined;
  /** The server ends the stream: `OK`, or the status code and the message. */
  readonly ended?: string | undefined;
}

/** Something that happened in etcd, but not by a call in the recording. Exactly one of the optional fields is set. */
export interface EventStep extends StepTime {
  /** The ID of a lease that expires, in hexadecimal. */
  readonly expire?: string | undefined;
  /** Events of one revision, as `mvccpb.Event`. Clients that are not in the recording caused them. */
  readonly write?: readonly RecordedMessage[] | undefined;
  /** A number of revisions of which the recording shows nothing. */
  readonly skip?: number | undefined;
  /** The revision of a compaction. */
  readonly compact?: number | undefined;
}

/** A field in which the answer of the server differs from the recorded one. */
export interface ReplayDifference {
  /** The index of the step in the recording. */
  readonly step: number;
  /** The RPC, such as `KV/Put`. */
  readonly rpc: string;
  /** The field, such as `header.revision` or `kvs[0].value`. */
  readonly field: string;
  /** The recorded value. Undefined if the recorded answer lacks the field. */
  readonly recorded: unknown;
  /** The value in the answer of the server. Undefined if the answer lacks the field. */
  readonly replayed: unknown;
}
