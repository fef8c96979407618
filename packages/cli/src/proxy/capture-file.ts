import { after, concatBytes, environment, monotonicMs } from '../../../../src/internal.js';
import { PcapngWriter, type WireFrame, type WrittenConnection } from '../inspect/index.js';
import { PrivateFile } from '../trace/private-files.js';
import { addressText, type ObservedConnection, type Traffic } from './traffic.js';

/** The file is written when this many bytes are waiting, or after `FLUSH_MS`. */
const FLUSH_BYTES = 65_536;
const FLUSH_MS = 200;

/** Bytes of one direction of a connection that become one packet. */
interface Pending {
  readonly connection: number;
  readonly direction: WireFrame['direction'];
  readonly atMs: number;
  readonly parts: Uint8Array[];
}

/** Writes the frames of connections to a file in the format pcapng. The frames lack TLS, passwords and tokens. */
export class CaptureFile extends PrivateFile implements Traffic {
  readonly #writer: PcapngWriter;
  readonly #connections = new Map<number, WrittenConnection>();
  /** The difference between the time since 1970 and the monotonic clock, in milliseconds. */
  readonly #epochMs = environment.Date.now() - monotonicMs();
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #pending: Pending | undefined;
  #stopTimer: (() => void) | undefined;

  /** @throws Error if the file cannot be written. */
  constructor(path: string, program: string) {
    super(path, '--record');
    this.#writer = new PcapngWriter((bytes) => this.#add(bytes), program);
    this.#flush();
    if (this.problem !== undefined) throw this.problem;
  }

  opened({ connection, client, server, endpoint, certificateName, atMs }: ObservedConnection): void {
    const name = certificateName === undefined ? '' : `, client certificate ${certificateName}`;
    const comment = `connection ${connection} from ${addressText(client)} to ${endpoint}${name}`;
    this.#connections.set(connection, this.#writer.open(client, server, comment, this.#epochMs + atMs));
  }

  frame({ connection, direction, atMs, bytes }: WireFrame): void {
    if (this.#pending?.connection !== connection || this.#pending.direction !== direction) this.pieceEnded();
    this.#pending ??= { connection, direction, atMs, parts: [] };
    this.#pending.parts.push(bytes);
  }

  /** Ends the packet of the latest frames. */
  pieceEnded(): void {
    if (this.#pending === undefined) return;
    const { connection, direction, atMs, parts } = this.#pending;
    this.#pending = undefined;
    const bytes = parts.length === 1 ? (parts[0] as Uint8Array) : concatBytes(...parts);
    this.#connections.get(connection)?.bytes(direction, bytes, this.#epochMs + atMs);
  }

  closed(connection: number, atMs: number): void {
    this.pieceEnded();
    this.#connections.get(connection)?.close(this.#epochMs + atMs);
    this.#connections.delete(connection);
  }

  /** Writes the rest, and closes the file. */
  override close(): void {
    for (const connection of [...this.#connections.keys()]) this.closed(connection, monotonicMs());
    this.#flush();
    super.close();
  }

  #add(bytes: Uint8Array): void {
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#waitingBytes >= FLUSH_BYTES) this.#flush();
    else this.#stopTimer ??= after(FLUSH_MS, () => this.#flush(), 'background');
  }

  #flush(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    const bytes = concatBytes(...this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.write(bytes);
  }
}
