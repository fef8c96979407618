import type { OutgoingStream } from './transport.js';

/** The same stream, with some of its methods replaced: for transports that stand on others. */
export function forwardStream<Request>(
  stream: OutgoingStream<Request>,
  replaced: Partial<OutgoingStream<Request>>,
): OutgoingStream<Request> {
  return {
    send: (message) => stream.send(message),
    end: () => stream.end(),
    cancel: (why) => stream.cancel(why),
    pause: () => stream.pause(),
    resume: () => stream.resume(),
    hold: (busy) => stream.hold?.(busy),
    ...replaced,
  };
}
