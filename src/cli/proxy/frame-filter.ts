import { Option } from 'commander';
import { messagesIn, streamOf, type WireFrame } from '../../inspect/frames.js';
import { CliError, ExitCode } from '../exit-code.js';
import type { Lanes } from '../trace/lanes.js';
import { ALLOWED_RPCS, RequestFilter, unknownRpc } from './request-filter.js';

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
    new Option('--connection <text>', 'show only connections whose number, name or address contains this text'),
  ];
}

/** What a command does with the traffic that it shows. */
export interface Shown {
  frame(frame: WireFrame): void;
  /** The connection has closed, `atMs` milliseconds on the monotonic clock. */
  closed(connection: number, atMs: number): void;
}

/**
 * Chooses the frames that a command shows, and the connections whose end it shows. A filter of keys first sees the key in the request, after the header of the
 * request. So the filter holds the frames of a stream back until it has seen a request that fits.
 */
export class FrameFilter {
  readonly #requests: RequestFilter;
  readonly #connection: string;
  readonly #lanes: Lanes;
  readonly #shown: Shown;
  /** The frames of streams that have not shown whether they fit. `shown` means that the stream fits. */
  readonly #streams = new Map<string, WireFrame[] | 'shown'>();

  /** @throws CliError if an RPC does not exist. */
  constructor({ rpc = '', prefix = '', connection = '' }: FilterFlags, lanes: Lanes, shown: Shown) {
    const rpcs = rpc.split(',').filter((name) => name !== '');
    const unknown = unknownRpc(rpcs);
    if (unknown !== undefined)
      throw new CliError(ExitCode.USAGE, `--rpc: got ${JSON.stringify(unknown)}; allowed: ${ALLOWED_RPCS}`);
    this.#requests = new RequestFilter(rpcs, prefix);
    this.#connection = connection;
    this.#lanes = lanes;
    this.#shown = shown;
  }

  frame(frame: WireFrame): void {
    if (!this.#isOfConnection(frame.connection)) return;
    if (this.#requests.isEmpty) return this.#shown.frame(frame);
    if (frame.streamId === 0) {
      // GOAWAY tells what has become of the calls of the connection.
      if (frame.type === 'GOAWAY' && this.#streamsOf(frame.connection).some(([, held]) => held === 'shown'))
        this.#shown.frame(frame);
      return;
    }
    const stream = streamOf(frame);
    const held = this.#streams.get(stream) ?? [];
    if (held === 'shown') this.#shown.frame(frame);
    else if (this.#fits(frame)) {
      this.#streams.set(stream, 'shown');
      for (const each of [...held, frame]) this.#shown.frame(each);
    }
    // The header comes before the first request. Later frames of a stream that does not fit are left out.
    else if (held.length === 0) this.#streams.set(stream, [frame]);
    const ends = frame.type === 'RST_STREAM' || (frame.direction === 'received' && frame.flags.includes('END_STREAM'));
    if (ends) this.#streams.delete(stream);
  }

  closed(connection: number, atMs: number): void {
    if (!this.#isOfConnection(connection)) return;
    const open = this.#streamsOf(connection);
    for (const [stream] of open) this.#streams.delete(stream);
    if (this.#requests.isEmpty || open.some(([, held]) => held === 'shown')) this.#shown.closed(connection, atMs);
  }

  #streamsOf(connection: number): readonly (readonly [stream: string, held: WireFrame[] | 'shown'])[] {
    return [...this.#streams].filter(([stream]) => stream.startsWith(`${connection}:`));
  }

  #isOfConnection(connection: number): boolean {
    if (this.#connection === '') return true;
    const { name, address } = this.#lanes.laneOf(connection);
    return (
      `${connection}` === this.#connection || name.includes(this.#connection) || address.includes(this.#connection)
    );
  }

  #fits(frame: WireFrame): boolean {
    if (frame.direction === 'received') return false;
    return messagesIn(frame).some(({ method, typeName, bytes }) => this.#requests.fits(method, typeName, bytes));
  }
}
