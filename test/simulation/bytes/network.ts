import type { ByteStream } from '../../../src/host/host.js';
import type { Clock } from '../../../src/testing/memory/clock.js';
import type { Link, Network } from '../network.js';
import type { Random } from '../random.js';
import { serverClock } from '../server-clock.js';

/** The plan by which a history uses HTTP/2 over simulated byte streams. */
export interface BytePlan {
  /** Whether written bytes arrive in pieces of random sizes, instead of as they were written. */
  readonly isSplit: boolean;
  /** The probability that a connection opens slowly, as long as faults may begin. */
  readonly slowOpenings: number;
  /**
   * How many bytes a connection carries in a millisecond in each direction, as long as faults may begin. The link has a
   * buffer without a limit, so the sender never waits. Default: no limit.
   */
  readonly bytesPerMs?: number | undefined;
  /** Maximum number of open streams on a connection. Default: no limit. */
  readonly maxStreams?: number | undefined;
}

/** Maximum number of deliveries for the bytes of one write. */
const MAX_DELIVERIES = 3;
/** Maximum length in bytes of a segment on a slow link. */
const SEGMENT_BYTES = 16_384;
/** Maximum length of a short piece in bytes. A frame header is longer. */
const SHORT_PIECE_BYTES = 8;

/** Draws whether a history uses byte streams. The plan is undefined if the history uses whole messages. */
export function drawBytes(random: Random, isUnary: boolean): BytePlan | undefined {
  if (!random.chance(0.1)) return undefined;
  const isSplit = random.chance(0.5);
  const slowOpenings = random.pick([0, 0, 0.1]);
  const maxStreams = isUnary ? random.pick([undefined, 1, 2]) : undefined;
  const bytesPerMs = random.pick([undefined, undefined, undefined, 1, 64]);
  return { isSplit, slowOpenings, maxStreams, bytesPerMs };
}

/**
 * The simulated network at the level of bytes: the clients use the HTTP/2 transport of `src/`, and each member is an
 * HTTP/2 server. It shares the paths, the connections and the faults of a `Network`. Each connection has its own
 * `Http2Server`, so that a fault of a call can find the connection of the call.
 */
export class ByteNetwork {
  readonly network: Network;
  readonly plan: BytePlan;
  readonly clock: Clock;
  /** How many times each event of this network has happened, for the table of coverage. */
  readonly coverage = new Map<string, number>();
  /** Reports a broken rule. */
  readonly violated: (rule: string, detail: string) => void;
  /** The connections that are open at a server. */
  readonly accepted = new Set<Link>();
  /** The streaming calls that are open at a server. */
  readonly streams = new Set<object>();
  isHealed = false;

  constructor(network: Network, plan: BytePlan, violated: (rule: string, detail: string) => void) {
    this.network = network;
    this.plan = plan;
    this.violated = violated;
    this.clock = serverClock(network.world, 'of a connection');
  }

  count(what: string): void {
    this.coverage.set(what, (this.coverage.get(what) ?? 0) + 1);
  }

  /** Reports the connections and streams that are still open at the servers after all clients are closed. */
  checkLeft(): void {
    // Bytes that a closed client has sent may still be on a slow link, and then open a connection or a stream.
    if (this.plan.bytesPerMs !== undefined) return;
    for (const { process, member } of this.accepted)
      this.violated('connection left', `of ${process.name} at ${member.url}`);
    if (this.streams.size > 0) this.violated('stream left', `${this.streams.size} streams are open at the servers`);
  }

  /** Makes a byte stream deliver the bytes of each write in pieces, if the plan splits writes or has slow links. */
  split(stream: ByteStream): ByteStream {
    const { isSplit, bytesPerMs } = this.plan;
    if (!isSplit && bytesPerMs === undefined) return stream;
    const { random } = this.network.world;
    return {
      write: (parts) => {
        let isWritable: boolean | undefined = true;
        for (const group of isSplit ? groups(random, parts) : segments(parts)) isWritable = stream.write(group);
        this.count('split bytes');
        return isWritable;
      },
      keepProcessAlive: (busy) => stream.keepProcessAlive(busy),
      close: () => stream.close(),
    };
  }
}

/** Divides the bytes of one write into deliveries. The server or client reads each piece of a delivery on its own. */
function groups(random: Random, parts: readonly Uint8Array[]): Uint8Array[][] {
  const deliveries: Uint8Array[][] = [[]];
  const isShort = random.chance(0.3);
  for (const part of parts)
    for (let at = 0; at < part.length; ) {
      const length = isShort ? random.between(1, SHORT_PIECE_BYTES) : random.between(1, part.length);
      deliveries.at(-1)?.push(part.subarray(at, at + length));
      at += length;
      if (deliveries.length < MAX_DELIVERIES && random.chance(0.2)) deliveries.push([]);
    }
  return deliveries.filter(({ length }) => length > 0);
}

/** Divides the bytes of one write into the segments that a slow link carries one after the other. */
function segments(parts: readonly Uint8Array[]): Uint8Array[][] {
  return parts.flatMap((part) =>
    Array.from({ length: Math.ceil(part.length / SEGMENT_BYTES) }, (_, index) => [
      part.subarray(index * SEGMENT_BYTES, (index + 1) * SEGMENT_BYTES),
    ]),
  );
}
