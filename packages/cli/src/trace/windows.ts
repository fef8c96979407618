import { FRAME_HEADER_BYTES } from '../../../../src/internal.js';
import type { WireFrame } from '../inspect/index.js';

/** The size of a flow-control window before the first SETTINGS frame, in bytes: RFC 9113, section 6.9.2. */
const INITIAL_BYTES = 65_535;

/** What one side of a connection may still send, in bytes. */
interface Allowance {
  connection: number;
  /** The window of a stream on which this side has sent nothing yet. */
  initial: number;
  readonly streams: Map<number, number>;
}

/**
 * Follows the flow-control windows of all connections of a trace: RFC 9113, section 5.2. The receiver of data grants
 * the windows. The windows are those that the client knows: the server may not have received the last WINDOW_UPDATE
 * yet.
 */
export class FlowWindows {
  readonly #connections = new Map<number, Readonly<Record<WireFrame['direction'], Allowance>>>();

  /** Returns how the frame changes the windows, as a sentence. Returns undefined if the frame changes none. */
  follow({ connection, direction, streamId, type, flags, bytes, detail }: WireFrame): string | undefined {
    let both = this.#connections.get(connection);
    if (both === undefined) {
      both = { sent: newAllowance(), received: newAllowance() };
      this.#connections.set(connection, both);
    }
    const sender = direction === 'sent' ? 'the client' : 'etcd';
    const receiver = direction === 'sent' ? 'etcd' : 'the client';
    const granted = both[direction === 'sent' ? 'received' : 'sent'];
    if (type === 'DATA') {
      const length = bytes.length - FRAME_HEADER_BYTES;
      const used = both[direction];
      used.connection -= length;
      const onConnection = `After these ${count(length)}, ${sender} may send ${count(used.connection)} on the connection`;
      if (flags.includes('END_STREAM')) {
        used.streams.delete(streamId);
        return `${onConnection}. It sends no more on stream ${streamId}.`;
      }
      used.streams.set(streamId, (used.streams.get(streamId) ?? used.initial) - length);
      return `${onConnection} and ${count(used.streams.get(streamId) as number)} on stream ${streamId}.`;
    }
    if (detail.kind === 'windowUpdate') {
      if (streamId === 0) {
        granted.connection += detail.increment;
        return `Now ${receiver} may send ${count(granted.connection)} on the connection.`;
      }
      const window = (granted.streams.get(streamId) ?? granted.initial) + detail.increment;
      granted.streams.set(streamId, window);
      return `Now ${receiver} may send ${count(window)} on stream ${streamId}.`;
    }
    const setting = detail.kind === 'settings' && detail.settings.find(([name]) => name === 'INITIAL_WINDOW_SIZE');
    if (!setting) return undefined;
    const change = setting[1] - granted.initial;
    granted.initial = setting[1];
    // The setting also changes the windows of the open streams: RFC 9113, section 6.9.2.
    for (const [id, window] of granted.streams) granted.streams.set(id, window + change);
    return `Now ${receiver} may send ${count(granted.initial)} on each new stream.`;
  }
}

function newAllowance(): Allowance {
  return { connection: INITIAL_BYTES, initial: INITIAL_BYTES, streams: new Map() };
}

function count(bytes: number): string {
  return `${bytes.toLocaleString('en')} bytes`;
}
