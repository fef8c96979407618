import { DATA, END_STREAM, type Frame, HEADERS, RST_STREAM } from './02-frames.js';
import { decodeHeaders } from './03-headers.js';
import { encode, type Fields, Message } from './04-protobuf.js';
import type { Connection } from './05-call.js';

/** A failed call. Status 14 means here that the server may have processed the request, or may not have. */
export class CallError extends Error {
  status = 14;
}

/** Starts a call. Returns `send(request, isLast)`, and `messages`, a stream that throws if the call fails. */
export function startCall(connection: Connection, path: string) {
  let controller!: ReadableStreamDefaultController<Message>;
  const messages = new ReadableStream<Message>({
    start: (created) => {
      controller = created;
    },
  });
  let rest = Buffer.alloc(0);
  const send = connection.start(path, (frame: Frame | Error) => {
    if (frame instanceof Error) return controller.error(new CallError(frame.message, { cause: frame }));
    if (frame.type === RST_STREAM) return controller.error(new CallError('the server reset the stream'));
    if (frame.type === DATA) rest = Buffer.concat([rest, frame.payload]);
    for (let length = 0; rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1); rest = rest.subarray(length)) {
      length = 5 + rest.readUInt32BE(1);
      controller.enqueue(new Message(rest.subarray(5, length)));
    }
    if (frame.type !== HEADERS || (frame.flags & END_STREAM) === 0) return;
    const trailers = decodeHeaders(frame.payload);
    const status = Number(trailers.get('grpc-status'));
    const message = decodeURIComponent(trailers.get('grpc-message') ?? '');
    if (status === 0) controller.close();
    else controller.error(Object.assign(new CallError(message), { status }));
  });
  return { messages, send: (request: Fields, isLast = false) => send(encode(request), isLast) };
}

/** Makes a call with one request and one response. */
export async function call(connection: Connection, path: string, request: Fields): Promise<Message> {
  const { messages, send } = startCall(connection, path);
  send(request, true);
  let response: Message | undefined;
  for await (const message of messages) response = message;
  if (response === undefined) throw new CallError('the server sent no response');
  return response;
}
