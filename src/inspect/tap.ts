import type { OpenByteStream } from '../host/host.js';
import { monotonicMs } from '../runtime/timers.js';
import type { WireFrame } from './frame.js';
import { FrameDecoder, type StreamMethods } from './frame-decoder.js';

/** The same byte streams, of which everything that goes over them is told, frame by frame. */
export function tapped(open: OpenByteStream, tell: (frame: WireFrame) => void): OpenByteStream {
  let connections = 0;
  return (endpoint, tls, events) => {
    connections += 1;
    const where = { connection: connections, endpoint: endpoint.url };
    const streams: StreamMethods = new Map();
    const sent = new FrameDecoder('client', streams, (frame) =>
      tell({ atMs: monotonicMs(), ...where, direction: 'sent', ...frame }),
    );
    const received = new FrameDecoder('server', streams, (frame) =>
      tell({ atMs: monotonicMs(), ...where, direction: 'received', ...frame }),
    );
    const stream = open(endpoint, tls, {
      opened: () => events.opened(),
      drained: () => events.drained(),
      closed: (problem) => events.closed(problem),
      read: (bytes) => {
        received.push(bytes);
        events.read(bytes);
      },
    });
    return {
      write: (parts) => {
        for (const part of parts) sent.push(part);
        return stream.write(parts);
      },
      hold: (busy) => stream.hold(busy),
      close: () => stream.close(),
    };
  };
}
