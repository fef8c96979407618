import { invalidInput, type Reason } from '../errors/etcd-error.js';
import { type Endpoint, parseEndpoint } from '../host/endpoint.js';
import { backoffMs, monotonicMs } from '../runtime/timers.js';
import type { Transport } from '../transport/transport.js';

/** Long enough for a stream that was moved away not to come straight back. */
const PARK_MS = 1_000;

/** One endpoint, what carries calls to it, and how it has fared lately. */
export interface Peer {
  readonly endpoint: Endpoint;
  readonly transport: Transport;
  /** Failures since the last success. */
  failures: number;
  /** When it failed last, on the monotonic clock. */
  failedAt: number;
  /** Not used before this time, on the monotonic clock, while another endpoint is at hand. */
  parkedUntil: number;
  /** Connections that did not come about since the last success. */
  vainDials: number;
  /** When calls that failed before try to connect again, on the monotonic clock. */
  dialAt: number;
  /** Calls and streams that use it, or are about to. */
  users: number;
}

/**
 * Chooses among endpoints: stays with the one that works, leaves one that fails and parks it for a while that grows
 * with every failure in a row.
 */
export class Peers {
  #preferred: readonly Peer[];
  /** Used where all those are parked. */
  #spare: readonly Peer[] = [];
  #current = 0;

  /** In the order in which they are tried. */
  constructor(peers: readonly Peer[]) {
    this.#preferred = peers;
  }

  /** Others from now on. The one in use stays so where it is preferred. */
  replace(preferred: readonly Peer[], spare: readonly Peer[]): void {
    const current = this.#preferred[this.#current] as Peer;
    this.#preferred = preferred;
    this.#spare = spare;
    this.#current = Math.max(0, preferred.indexOf(current));
  }

  /**
   * The peer to use now; where all are parked, the one that is so for the shortest time yet.
   *
   * @throws EtcdError, reason `InvalidInput`, where `endpoint` is given and none of them.
   */
  pick(endpoint?: string): Peer {
    if (endpoint !== undefined) return this.#named(endpoint);
    const now = monotonicMs();
    const peers = this.#preferred;
    for (let offset = 0; offset < peers.length; offset += 1) {
      const index = (this.#current + offset) % peers.length;
      const peer = peers[index] as Peer;
      if (peer.parkedUntil > now || peer.transport.suspect) continue;
      this.#current = index;
      return peer;
    }
    const spare = this.#spare.find((peer) => peer.parkedUntil <= now && !peer.transport.suspect);
    return spare ?? this.all().reduce((best, peer) => (peer.parkedUntil < best.parkedUntil ? peer : best));
  }

  /** A call begun at `startedAt` came through. One begun before the last failure says nothing. */
  succeeded(peer: Peer, startedAt: number): void {
    if (startedAt < peer.failedAt) return;
    peer.failures = 0;
    peer.parkedUntil = 0;
    peer.vainDials = 0;
    peer.dialAt = 0;
  }

  /** Many calls fail with one connection: while a peer is parked, that counts as the same failure. */
  failed(peer: Peer, reason?: Reason): void {
    const now = monotonicMs();
    if (reason === 'ConnectFailed' && peer.dialAt <= now) {
      peer.dialAt = now + backoffMs(peer.vainDials);
      peer.vainDials += 1;
    }
    if (peer.parkedUntil > now) return;
    peer.parkedUntil = now + PARK_MS + backoffMs(peer.failures);
    peer.failedAt = now;
    peer.failures += 1;
  }

  /**
   * Milliseconds that a call waits for its next attempt. Where the peer cannot be connected to, all wait for the same
   * moment: they make one connection, however many they are.
   */
  pauseMs(peer: Peer, attempt: number): number {
    const leftMs = peer.dialAt - monotonicMs();
    return leftMs > 0 ? leftMs : backoffMs(attempt);
  }

  all(): readonly Peer[] {
    return [...this.#preferred, ...this.#spare];
  }

  /** Asked after each call. */
  has(peer: Peer): boolean {
    return this.#preferred.includes(peer) || this.#spare.includes(peer);
  }

  #named(endpoint: string): Peer {
    const { url } = parseEndpoint(endpoint, 'endpoint');
    const all = this.all();
    const named = all.find((peer) => peer.endpoint.url === url);
    if (named !== undefined) return named;
    const known = all.map((peer) => peer.endpoint.url);
    throw invalidInput('endpoint', url, `one of the client's endpoints: ${known.join(', ')}`);
  }
}
