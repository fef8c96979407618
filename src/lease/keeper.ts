import { isTokenRefused, MAX_TOKEN_RENEWALS } from '../channel/authentication.js';
import { REQUIRE_LEADER, type Rpc } from '../channel/rpc.js';
import type { EtcdError, Reason } from '../errors/etcd-error.js';
import type { LeaseKeepAliveRequest, LeaseKeepAliveResponse } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import { causeOf, log, WaitLog } from '../runtime/log.js';
import { onAbort } from '../runtime/signals.js';
import { after, backoffMs, monotonicMs } from '../runtime/timers.js';
import type { OutgoingStream } from '../transport/transport.js';
import { KeepAlive, leaseLost } from './keep-alive.js';

/** A third of the granted TTL leaves room for two failures. */
const RENEWALS_PER_TTL = 3;
/** Shorter answers are owed by no server: an election alone may take longer. */
const MIN_PATIENCE_MS = 500;
/** For the first answer of a lease whose TTL is not known, after some that did not come. */
const MAX_FIRST_PATIENCE_MS = 10_000;
/** After a blocked event loop an answer may have arrived that nobody has read yet. */
const GRACE_MS = 50;

const NO_ANSWER = { at: Number.NEGATIVE_INFINITY, sentAt: Number.NEGATIVE_INFINITY };

/** Ends of a lease that this client has asked for. */
const EXPECTED: ReadonlySet<Reason> = new Set(['LeaseRevoked', 'KeepAliveClosed', 'ClientClosed']);

interface Kept {
  readonly id: bigint;
  readonly handles: Set<KeepAlive>;
  /** Seconds, as granted last; undefined while it is not known. */
  ttl: number | undefined;
  /** Seconds that the grant itself gave, as the latest caller told; undefined where each gave the number alone. */
  granted: number | undefined;
  /**
   * One request at a time, so that an answer needs no other correlation than the id. `due`: it waits for a stream.
   * `overdue`: it got no answer for half an interval, nor did those ahead of it.
   */
  state: 'idle' | 'due' | 'sent' | 'overdue';
  /** When the request under way was sent. */
  sentAt: number;
  stopTimer: () => void;
}

/** Renews all leases over one stream. Owns the stream; the handles hear of it what concerns them. */
export class LeaseKeeper {
  readonly #rpc: Rpc;
  readonly #kept = new Map<bigint, Kept>();
  /** Answers still to come on this stream for requests of leases that were let go: they are not those of a new one. */
  readonly #owed = new Map<bigint, number>();
  #stream: OutgoingStream<LeaseKeepAliveRequest> | undefined;
  /** Of this stream: when it last answered, and when the latest request that it answered was sent. */
  #answer = NO_ANSWER;
  #stopReopening: () => void = () => {};
  #unsubscribe: () => void = () => {};
  #reopening = false;
  #closed = false;
  #failures = 0;
  #oneByOne = false;
  /** Streams in a row that ended for their token. */
  #renewals = 0;
  readonly #waitLog: WaitLog;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.#waitLog = new WaitLog(rpc.settings.logger, 'keepalives');
  }

  /** `granted` tells when the request that granted the lease was sent, and the TTL in seconds. */
  keep(id: bigint, granted?: { readonly sentAt: number; readonly ttl: number }): KeepAlive {
    const handle = new KeepAlive(id);
    const { closed } = this.#rpc.settings;
    if (this.#closed || closed.aborted) {
      handle.lose(lostWithClient(id));
      return handle;
    }
    // Only as long as there is one kept: a namespace is made for a moment, and the client lasts.
    if (this.#kept.size === 0) this.#subscribe(closed);
    handle.signal.addEventListener('abort', () => this.#lost(handle));
    const kept: Kept = this.#kept.get(id) ?? {
      id,
      handles: new Set(),
      ttl: undefined,
      granted: undefined,
      state: 'idle',
      sentAt: 0,
      stopTimer: () => {},
    };
    this.#kept.set(id, kept);
    kept.handles.add(handle);
    if (granted !== undefined) {
      kept.granted = granted.ttl;
      handle.acknowledged(granted.sentAt, granted.ttl);
    }
    // A renewal under way serves this handle too.
    if (kept.state !== 'idle') return handle;
    if (granted === undefined) this.#schedule(kept, 0);
    else this.#scheduleNext(kept, granted.sentAt, granted.ttl);
    return handle;
  }

  /** The lease is gone, or about to be. */
  lose(id: bigint, reason: EtcdError): void {
    const kept = this.#kept.get(id);
    if (kept === undefined) return;
    this.#drop(kept);
    for (const handle of kept.handles) handle.lose(reason);
  }

  /** Every lease kept here is lost to its owner: the client is closed. */
  close(): void {
    this.#closed = true;
    for (const id of [...this.#kept.keys()]) this.lose(id, lostWithClient(id));
  }

  #subscribe(closed: AbortSignal): void {
    const offClosed = onAbort(closed, () => this.close());
    const offChange = this.#rpc.settings.cluster?.onChange((error) => this.#loseAll(error));
    this.#unsubscribe = () => {
      offClosed();
      offChange?.();
    };
  }

  #loseAll(reason: EtcdError): void {
    for (const id of [...this.#kept.keys()]) this.lose(id, reason);
  }

  #lost(handle: KeepAlive): void {
    const { reason, problem } = handle.signal.reason as EtcdError;
    if (!EXPECTED.has(reason))
      log(this.#rpc.settings.logger, 'warn', 'lease lost', { lease: handle.id.toString(16), reason, problem });
    this.#release(handle);
  }

  #release(handle: KeepAlive): void {
    const kept = this.#kept.get(handle.id);
    kept?.handles.delete(handle);
    if (kept?.handles.size === 0) this.#drop(kept);
  }

  #drop(kept: Kept): void {
    kept.stopTimer();
    this.#kept.delete(kept.id);
    if (kept.state === 'sent' || kept.state === 'overdue') this.#owed.set(kept.id, (this.#owed.get(kept.id) ?? 0) + 1);
    if (this.#kept.size > 0) return this.#goOnWithout(kept);
    this.#unsubscribe();
    this.#stopReopening();
    this.#reopening = false;
    this.#waitLog.reset();
    this.#stream?.cancel();
    this.#forgetStream();
  }

  /** Where it was the one to be tried, the others wait for what becomes of it: elsewhere it cannot be taken for theirs. */
  #goOnWithout({ state }: Kept): void {
    if (!this.#oneByOne || (state !== 'sent' && state !== 'overdue')) return;
    this.#stream?.cancel();
    this.#forgetStream();
    // All that are let go together are let go first.
    queueMicrotask(() => {
      if (!this.#reopening) this.#sendDue();
    });
  }

  #forgetStream(): void {
    this.#stream = undefined;
    this.#answer = NO_ANSWER;
    this.#owed.clear();
  }

  #schedule(kept: Kept, delayMs: number): void {
    kept.stopTimer();
    kept.stopTimer = after(delayMs, () => this.#renew(kept));
  }

  /** After the one that was sent at `sentAt` and gave `ttl` seconds. */
  #scheduleNext(kept: Kept, sentAt: number, ttl: number): void {
    kept.ttl = ttl;
    this.#schedule(kept, sentAt + intervalMs(ttl) - monotonicMs());
  }

  #renew(kept: Kept): void {
    if (kept.state === 'sent' || kept.state === 'overdue') return this.#unanswered(kept);
    kept.state = 'due';
    if (this.#reopening) return;
    if (this.#oneByOne) this.#sendDue();
    else this.#send(kept);
  }

  /** Requests are answered in their order: while those ahead of it are, it has to wait, and would do so again elsewhere. */
  #unanswered(kept: Kept): void {
    const isPassedOver = this.#answer.sentAt > kept.sentAt;
    const patienceMs = isPassedOver ? 0 : this.#answer.at + this.#patienceMs(kept) - monotonicMs();
    if (patienceMs > 0) {
      kept.state = 'sent';
      this.#schedule(kept, patienceMs);
    } else if (kept.state === 'sent') {
      kept.state = 'overdue';
      this.#schedule(kept, GRACE_MS);
    } else this.#restart();
  }

  /** All that are due; one at a time while it is to be found out which of them the server refuses. */
  #sendDue(): void {
    const all = [...this.#kept.values()];
    const due = all.filter(({ state }) => state === 'due');
    const underWay = all.some(({ state }) => state === 'sent' || state === 'overdue');
    if (due.length === 0 && !underWay) this.#oneByOne = false;
    if (!this.#oneByOne) for (const kept of due) this.#send(kept);
    else if (!underWay && due[0] !== undefined) this.#send(due[0]);
  }

  #send(kept: Kept): void {
    const stream = this.#stream ?? this.#open();
    kept.state = 'sent';
    kept.sentAt = monotonicMs();
    stream.send({ id: kept.id });
    this.#schedule(kept, this.#patienceMs(kept));
  }

  /** Of a lease whose TTL is not known there is no telling how soon it ends: who answers slowly is given more time. */
  #patienceMs({ ttl }: Kept): number {
    if (ttl === undefined) return Math.min(MIN_PATIENCE_MS * 2 ** this.#failures, MAX_FIRST_PATIENCE_MS);
    return Math.max(intervalMs(ttl) / 2, MIN_PATIENCE_MS);
  }

  #open(): OutgoingStream<LeaseKeepAliveRequest> {
    const stream = this.#rpc.stream(
      methods.lease.leaseKeepAlive,
      {
        message: (response) => this.#receive(response),
        end: (error) => {
          if (this.#stream === stream) this.#ended(error);
        },
        leaving: () => {
          if (this.#stream !== stream) return;
          stream.cancel();
          this.#ended(undefined);
        },
      },
      { metadata: REQUIRE_LEADER },
    );
    this.#stream = stream;
    return stream;
  }

  #receive({ id, ttl }: LeaseKeepAliveResponse): void {
    this.#failures = 0;
    this.#renewals = 0;
    this.#waitLog.goOn({ leases: this.#kept.size });
    const owed = this.#owed.get(id) ?? 0;
    if (owed > 0) return void this.#owed.set(id, owed - 1);
    const kept = this.#kept.get(id);
    if (kept === undefined || (kept.state !== 'sent' && kept.state !== 'overdue')) return;
    this.#answer = { at: monotonicMs(), sentAt: Math.max(kept.sentAt, this.#answer.sentAt) };
    kept.state = 'idle';
    if (ttl > 0n) this.#renewed(kept, Number(ttl));
    else this.lose(id, leaseLost(id, 'LeaseExpired', 'the server does not know it any more'));
    if (this.#oneByOne) this.#sendDue();
  }

  /**
   * etcd renews a lease by the TTL that it granted. A proxy or a confused server may answer with more, and a deadline that
   * trusts it would lie behind the end of the lease.
   */
  #renewed(kept: Kept, answered: number): void {
    const ttl = Math.min(answered, kept.granted ?? answered);
    for (const handle of kept.handles) handle.acknowledged(kept.sentAt, ttl);
    // The answer came too late for every one of them.
    if (this.#kept.get(kept.id) !== kept) return;
    this.#scheduleNext(kept, kept.sentAt, ttl);
  }

  /** Whether no new stream would do better. */
  #isForbidden(error: EtcdError): boolean {
    if (isTokenRefused(error)) return !this.#rpc.settings.renewsTokens || this.#renewals++ === MAX_TOKEN_RENEWALS;
    return error.reason === 'AuthFailed' || error.reason === 'ClusterChanged';
  }

  /** A request went unanswered: the stream leads nowhere. */
  #restart(): void {
    this.#stream?.cancel('unresponsive');
    this.#waitLog.waits({ problem: 'the server did not answer in time', leases: this.#kept.size });
    this.#ended(undefined);
  }

  #ended(error: EtcdError | undefined): void {
    this.#forgetStream();
    if (error?.reason === 'ClientClosed') return this.close();
    if (error?.reason === 'PermissionDenied') return this.#refused(error);
    if (error !== undefined && this.#isForbidden(error)) return this.#loseAll(error);
    this.#waitLog.waits({ ...causeOf(error), leases: this.#kept.size });
    for (const kept of this.#kept.values()) {
      if (kept.state === 'idle') continue;
      kept.state = 'due';
      kept.stopTimer();
    }
    this.#reopening = true;
    this.#stopReopening = after(backoffMs(this.#failures++), () => {
      this.#reopening = false;
      this.#sendDue();
    });
  }

  /**
   * The user may not renew one of the leases, for it has keys that are out of bounds, and the server ends the stream of
   * all without saying which. Those under way are tried one by one; the one that it happens with is lost.
   */
  #refused(error: EtcdError): void {
    const underWay = [...this.#kept.values()].filter(({ state }) => state === 'sent' || state === 'overdue');
    for (const kept of underWay) {
      kept.state = 'due';
      kept.stopTimer();
    }
    if (underWay.length === 1) this.lose((underWay[0] as Kept).id, error);
    this.#oneByOne = true;
    this.#sendDue();
  }
}

/** Between two renewals of a lease of so many seconds. */
function intervalMs(ttl: number): number {
  return (ttl * 1000) / RENEWALS_PER_TTL;
}

export function lostWithClient(id: bigint): EtcdError {
  return leaseLost(id, 'ClientClosed', 'the client was closed');
}
