import { monotonicMs, type OpenByteStream } from '../../../../src/internal.js';
import { FrameDecoder, type StreamMethods, type WireFrame } from './frames.js';

/**
 * Returns a function that opens byte streams with `open`, and calls `onFrame` for each frame sent or received there,
 * and `onClosed` with the number of each connection that either side closes.
 */
export function tapped(
  open: OpenByteStream,
  onFrame: (frame: WireFrame) => void,
  onClosed: (connection: number) => void = () => {},
): OpenByteStream {
  let connections = 0;
  return (endpoint, tls, events) => {
    connections += 1;
    const common = { connection: connections, endpoint: endpoint.url };
    const streams: StreamMethods = new Map();
    const decoder = (side: 'client' | 'server', direction: WireFrame['direction']): FrameDecoder =>
      new FrameDecoder(side, streams, (frame) => onFrame({ atMs: monotonicMs(), ...common, direction, ...frame }));
    const [sent, received] = [decoder('client', 'sent'), decoder('server', 'received')];
    let isOpen = true;
    const close = (): void => {
      if (isOpen) onClosed(common.connection);
      isOpen = false;
    };
    const stream = open(endpoint, tls, {
      opened: () => events.opened(),
      drained: () => events.drained(),
      closed: (problem, cause) => {
        close();
        events.closed(problem, cause);
      },
      read: (bytes) => {
        received.push(bytes);
        events.read(bytes);
      },
    });
    return {
      write: (parts) => {
        const hasRoom = stream.write(parts);
        if (hasRoom !== undefined) for (const part of parts) sent.push(part);
        return hasRoom;
      },
      keepProcessAlive: (busy) => stream.keepProcessAlive(busy),
      close: () => {
        close();
        stream.close();
      },
    };
  };
}
