import { vi } from 'vitest';
import { FLAG, ping } from './http2-frames.js';
import { type PeerConnection, turn } from './http2-peer.js';

// These functions are for tests of the PINGs by which a client checks that its peer still answers. The tests use a
// simulated clock.

export async function passes(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await turn();
}

/** Returns the number of PING frames that the client has sent. */
export function probes(connection: PeerConnection): number {
  return connection.sent('PING').filter(({ flags }) => flags === 0).length;
}

export function answerProbe(connection: PeerConnection): void {
  const last = connection.sent('PING').findLast(({ flags }) => flags === 0);
  connection.send(ping(last?.payload ?? new Uint8Array(8), FLAG.ACK));
}
