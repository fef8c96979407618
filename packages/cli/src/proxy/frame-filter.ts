import { Option } from 'commander';
import { wrongArguments } from '../exit-code.js';
import { messagesIn, type WireFrame } from '../inspect/index.js';
import type { Lanes } from '../trace/lanes.js';
import { ALLOWED_RPCS, RequestFilter, unknownRpc } from './request-filter.js';
import type { Traffic } from './traffic.js';

/** The flags that choose which frames a command shows. */
export interface FilterFlags {
  readonly rpc?: string;
  readonly prefix?: string;
  readonly connection?: string;
}

export function filterOptions(): readonly Option[] {
  return [
    new Option('--rpc <names>', 'show only these RPCs, separated by commas, such as Put,Txn'),
    new Option('--prefix <keys>', 'show only requests with a key that begins with this text, and their responses'),
    new Option(
      '--connection <text>',
      'show only the connection with this number, or connections whose name or address contains this text',
    ),
  ];
}

/**
 * Chooses the frames that a command shows, and the connections whose end it shows. A filter of keys first sees the key
 * in the request, after the header of the request. So the filter holds the frames of a stream back until it has seen a
 * request that fits.
 */
export class FrameFilter implements Traffic {
  readonly #requests: RequestFilter;
  readonly #connection: string;
  readonly #lanes: Lanes;
  readonly #shown: Traffic;
  /**
   * The open streams by the numbers of their connection and of the stream: `shown`, or the frame that begins a stream
   * without a request that fits.
   */
  readonly #streams = new Map<number, Map<number, WireFrame | 'shown'>>();

  /** @throws CliError if an RPC does not exist. */
  constructor({ rpc = '', prefix = '', connection = '' }: FilterFlags, lanes: Lanes, shown: Traffic) {
    const rpcs = rpc.split(',').filter((name) => name !== '');
    const unknown = unknownRpc(rpcs);
    if (unknown !== undefined) throw wrongArguments(`--rpc: got ${JSON.stringify(unknown)}; allowed: ${ALLOWED_RPCS}`);
    this.#requests = new RequestFilter(rpcs, prefix);
    this.#connection = connection;
    this.#lanes = lanes;
    this.#shown = shown;
  }

  frame(frame: WireFrame): void {
    if (!this.#isOfConnection(frame.connection)) return;
    if (this.#requests.isEmpty) return this.#shown.frame(frame);
    const { connection, streamId, direction, detail } = frame;
    const streams = this.#streams.get(connection) ?? new Map<number, WireFrame | 'shown'>();
    if (streamId === 0) {
      // GOAWAY tells what has become of the calls of the connection.
      if (frame.type === 'GOAWAY' && isAnyShown(streams)) this.#shown.frame(frame);
      return;
    }
    const held = streams.get(streamId);
    if (held === 'shown') this.#shown.frame(frame);
    else if (this.#fits(frame)) {
      streams.set(streamId, 'shown');
      for (const each of held === undefined ? [frame] : [held, frame]) this.#shown.frame(each);
    }
    // The header comes before the first request. Later frames of a stream that does not fit are left out.
    else if (held === undefined && direction === 'sent' && (detail.kind === 'headers' || detail.kind === 'http1'))
      streams.set(streamId, frame);
    if (endsCall(frame)) streams.delete(streamId);
    if (streams.size > 0) this.#streams.set(connection, streams);
    else this.#streams.delete(connection);
  }

  closed(connection: number, atMs: number): void {
    if (!this.#isOfConnection(connection)) return;
    const streams = this.#streams.get(connection);
    this.#streams.delete(connection);
    if (this.#requests.isEmpty || (streams !== undefined && isAnyShown(streams)))
      this.#shown.closed?.(connection, atMs);
  }

  #isOfConnection(connection: number): boolean {
    if (this.#connection === '') return true;
    // A number in an address or a name, such as the 1 in 127.0.0.1, says nothing about the number of the connection.
    if (/^\d+$/.test(this.#connection)) return `${connection}` === this.#connection;
    const { name, address } = this.#lanes.laneOf(connection);
    return name.includes(this.#connection) || address.includes(this.#connection);
  }

  #fits(frame: WireFrame): boolean {
    if (frame.direction === 'received') return false;
    return messagesIn(frame).some(({ method, typeName, bytes }) => this.#requests.fits(method, typeName, bytes));
  }
}

function isAnyShown(streams: ReadonlyMap<number, WireFrame | 'shown'>): boolean {
  return [...streams.values()].includes('shown');
}

/** Whether the frame ends its stream, or in HTTP/1.1 the answer. */
function endsCall({ type, direction, flags, detail }: WireFrame): boolean {
  if (type === 'RST_STREAM') return true;
  return direction === 'received' && (flags.includes('END_STREAM') || (detail.kind === 'http1' && detail.isEnd));
}
