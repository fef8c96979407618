import { textOf } from '../../../../src/internal.js';
import { headerIn, type WireFrame } from '../inspect/index.js';
import { addressText, type ObservedConnection, type Traffic } from '../proxy/traffic.js';

/** A column of the diagram. */
export interface Lane {
  readonly name: string;
  readonly address: string;
}

/** Maximum number of columns for clients. Further clients share the last one. */
const MAX_LANES = 5;
/** Maximum number of connections whose names are kept. */
const MAX_NAMES = 10_000;
const OTHERS: Lane = { name: 'other clients', address: '' };

/** What a name needs to know of a connection. */
type Client = Pick<ObservedConnection, 'connection' | 'client' | 'certificateName'>;

/** The names of the connections of a proxy. The name is the certificate's, the user agent, or the address. */
export class Lanes implements Traffic {
  readonly #infos = new Map<number, Client>();
  readonly #agents = new Map<number, string>();

  opened({ connection, client, certificateName }: Client): void {
    this.#infos.set(connection, { connection, client, certificateName });
    if (this.#infos.size <= MAX_NAMES) return;
    const oldest = this.#infos.keys().next().value as number;
    this.#infos.delete(oldest);
    this.#agents.delete(oldest);
  }

  /** Learns the user agent of a connection from the header of its first request. */
  frame(frame: WireFrame): void {
    const { connection, direction, detail, bytes } = frame;
    if (direction === 'received' || this.#agents.has(connection)) return;
    const isHttp1 = detail.kind === 'http1';
    const agent = isHttp1 ? /^user-agent: *(\S+)/im.exec(textOf(bytes))?.[1] : headerIn(frame, 'user-agent');
    if (agent !== undefined) this.#agents.set(connection, agent);
  }

  laneOf(connection: number): Lane {
    const { client, certificateName } = this.#infos.get(connection) ?? {};
    const address = client === undefined ? '' : addressText(client);
    const name = certificateName ?? this.#agents.get(connection)?.split(' ')[0];
    return name === undefined ? { name: address, address: '' } : { name, address };
  }

  /** Returns the columns for these frames, and the column of each connection. */
  columns(frames: readonly WireFrame[]): {
    readonly lanes: readonly Lane[];
    readonly of: (connection: number) => number;
  } {
    const counts = new Map<number, number>();
    for (const { connection } of frames) counts.set(connection, (counts.get(connection) ?? 0) + 1);
    const busiest = [...counts].sort(([, a], [, b]) => b - a).map(([connection]) => connection);
    const shown = (busiest.length <= MAX_LANES ? busiest : busiest.slice(0, MAX_LANES - 1)).sort((a, b) => a - b);
    const lanes = shown.map((connection) => this.laneOf(connection));
    if (busiest.length > MAX_LANES) lanes.push(OTHERS);
    const of = (connection: number): number => {
      const index = shown.indexOf(connection);
      return index < 0 ? lanes.length - 1 : index;
    };
    return { lanes: lanes.length === 0 ? [OTHERS] : lanes, of };
  }
}
