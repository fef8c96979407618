/** A frame as `etcdwire show -w json` prints it. The output has further fields, which this chapter does not use. */
export interface Frame {
  /** Milliseconds since the first frame of the recording. */
  readonly ms: number;
  readonly connection: number;
  readonly stream: number;
  /** Whether the client sent or received the frame. */
  readonly direction: 'sent' | 'received';
  /** The header fields of a HEADERS frame. */
  readonly headers?: readonly (readonly [name: string, value: string])[];
  /** The messages of a DATA frame. The fields have the names in the .proto files, and values of 64 bits are strings. */
  readonly messages?: readonly { readonly message: Readonly<Record<string, unknown>> }[];
}

/** A message, and the time at which the proxy received it. */
export interface Timed {
  readonly ms: number;
  readonly message: Readonly<Record<string, unknown>>;
}

/** What a recording shows of a call. */
export interface Call {
  readonly connection: number;
  /** The name of the method, such as `Put`. */
  readonly method: string;
  readonly requests: Timed[];
  readonly responses: Timed[];
  /** Whether an answer has begun: the proxy has received HEADERS from the server. */
  hasAnswer: boolean;
  /** `grpc-status`, which ends the answer. Undefined if the proxy has not received the end. */
  status: number | undefined;
}

/** Collects the frames of each call. Leaves out calls without a request. */
export function callsIn(frames: readonly Frame[]): Call[] {
  const calls = new Map<string, Call>();
  for (const { ms, connection, stream, direction, headers = [], messages = [] } of frames) {
    const [id, fields] = [`${connection} ${stream}`, new Map(headers)];
    const method = fields.get(':path')?.split('/').at(-1);
    if (method !== undefined)
      calls.set(id, { connection, method, requests: [], responses: [], hasAnswer: false, status: undefined });
    const call = calls.get(id);
    if (call === undefined) continue;
    for (const { message } of messages) (direction === 'sent' ? call.requests : call.responses).push({ ms, message });
    if (direction === 'received' && headers.length > 0) call.hasAnswer = true;
    if (fields.has('grpc-status')) call.status = Number(fields.get('grpc-status'));
  }
  return [...calls.values()].filter(({ requests }) => requests.length > 0);
}

/**
 * Says what a recording shows of the outcome of a transaction. The wording is free; the example shows that of the
 * course.
 */
export function outcomeOf({ hasAnswer, status, responses }: Call): string {
  if (status === undefined) return hasAnswer ? 'etcd has processed it, the answer was cut off' : 'unknown, no answer';
  if (status !== 0) return `status ${status}`;
  return responses[0]?.message.succeeded === true ? 'the conditions held' : 'the conditions did not hold';
}
