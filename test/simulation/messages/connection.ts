import { amended, EtcdError } from '../../../src/base/etcd-error.js';
import type { SimulatedMember } from '../member.js';
import { type Link, type Network, type Path, SlowMessages } from '../network.js';
import type { Process } from '../process.js';
import { type Direction, Silence } from '../silence.js';

/**
 * How long a client takes to notice that a connection is silent, in milliseconds: the minimum and the maximum time from
 * the sending of a PING to its time limit.
 */
const SILENCE_NOTICED_MS = [2_500, 8_600] as const;

/** A connection of a client to a member. */
export class Connection implements Link {
  readonly network: Network;
  readonly process: Process;
  readonly member: SimulatedMember;
  readonly path: Path;
  readonly silence: Silence;
  /** Whether the two ends are no longer connected. */
  isCut = false;
  /** Whether the client no longer uses the connection. */
  isLost = false;
  isOpen = false;
  isSuspect = false;
  /** Whether requests that are on their way when the connection is cut still arrive. */
  deliversLate = false;
  /** The calls at the client. */
  readonly calls = new Set<ClientCall>();
  /** The functions that cancel the calls at the server. */
  readonly served = new Set<() => void>();
  /** Called when the server announces that it closes the connection. */
  onLeaving: () => void = () => {};
  readonly #onLost: () => void;
  readonly #slow: SlowMessages;
  #watchingSilence = false;

  constructor(network: Network, process: Process, member: SimulatedMember, onLost: () => void) {
    this.network = network;
    this.process = process;
    this.member = member;
    this.path = network.path(process, member);
    this.silence = new Silence(this.path.silence);
    this.#onLost = onLost;
    this.#slow = new SlowMessages(network);
    network.connections.add(this);
  }

  get isSilent(): boolean {
    return this.silence.isActive(this.network.world.now);
  }

  heal(): void {
    this.silence.end(this.network.world.now);
    this.#slow.hasten();
  }

  /** Schedules the arrival of a message. A silent connection delays it. */
  carry(direction: Direction, kind: string, detail: string, arrive: () => void, extraMs = 0): void {
    const { network } = this;
    const { world } = network;
    const owner = direction === 'to-server' ? world.outside : this.process;
    const deliver = (): void => {
      const until = this.silence.until(direction);
      if (until > world.now) return this.#slow.deliver(until + network.delayMs(), owner, kind, detail, deliver);
      if (this.isCut && (direction === 'to-client' || !this.deliversLate)) return;
      arrive();
    };
    const slowMs = network.slownessMs(direction);
    this.#slow.deliver(world.time + network.delayMs() + slowMs + extraMs, owner, kind, detail, deliver);
  }

  cut(deliversLate = false, noticeMs = 0, serverNoticeMs = this.network.delayMs()): void {
    if (this.isCut) return;
    this.isCut = true;
    this.deliversLate = deliversLate;
    const { world } = this.network;
    this.network.connections.delete(this);
    this.network.notice(this.process, noticeMs, 'notices the end of a connection', '', () => this.lose());
    const closed = (): void => {
      for (const cancel of [...this.served]) cancel();
    };
    world.at(world.time + serverNoticeMs, world.outside, 'notices the end of a connection', '', closed);
  }

  vanish(ms: number, serverNoticeMs?: number): void {
    this.cut(false, Math.min(ms, this.network.world.random.between(...SILENCE_NOTICED_MS)), serverNoticeMs);
  }

  /** Ends the connection at the client. */
  lose(problem = 'the connection was closed by the peer'): void {
    if (this.isLost) return;
    this.isLost = true;
    this.#onLost();
    this.cut(this.network.world.random.chance(0.5));
    const error = new EtcdError(problem, {
      code: 'Unavailable',
      reason: 'ConnectionLost',
      outcome: 'unknown',
      endpoint: this.member.url,
    });
    for (const call of [...this.calls]) call.fail(error);
    this.calls.clear();
  }

  /** Makes the client notice, after some time, that the connection is silent. */
  watchSilence(): void {
    if (this.#watchingSilence || this.isLost || !this.isSilent) return;
    this.#watchingSilence = true;
    const { world } = this.network;
    const ms = world.random.between(...SILENCE_NOTICED_MS);
    world.at(world.time + Math.min(ms, 1_000), this.process, 'suspects a silent connection', '', () => {
      if (this.isSilent && this.calls.size > 0) this.isSuspect = true;
    });
    world.at(world.time + ms, this.process, 'gives up a silent connection', '', () => {
      this.#watchingSilence = false;
      this.isSuspect = false;
      if (this.isSilent && this.calls.size > 0) this.lose('the peer did not answer a PING');
    });
  }
}

/**
 * Returns the error of a call that fails. If the connection fails with an unknown outcome, a call that was not sent has
 * the outcome `not-sent`.
 */
export function failureOf(error: EtcdError, method: string, isSent: boolean): EtcdError {
  return amended(error, { method, outcome: error.outcome === 'unknown' && !isSent ? 'not-sent' : error.outcome });
}

/** A call at the client. */
export interface ClientCall {
  /** The connection is open, so the call can be sent. */
  send(connection: Connection): void;
  /** The connection could not be opened, or is lost, or the client is closed. */
  fail(error: EtcdError): void;
  /** The server will close the connection soon. */
  leaving(): void;
}
