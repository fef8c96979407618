import { pause } from '../../src/base/timers.js';
import type { Normal, Normalizer } from './normalize.js';
import { latin1 } from './resolve.js';
import type { Message, OpenStream, Outcome } from './target.js';
import { RESPONSE_LIMIT_MS } from './watch-stream.js';

/** The interval, in milliseconds, at which `settle` checks whether a call waits. */
const POLL_MS = 2;
/**
 * How long to wait for the answer of a call whose queue key existed before the call, in milliseconds. The queue does
 * not show whether the server has already handled such a call, and the call may fail.
 */
const DOUBT_MS = 250;
const ASCENDING = 1;
const BY_CREATE_REVISION = 2;

/** A key of a queue: of the contenders of a lock, or of the candidates of an election. */
interface QueueKey {
  readonly key: Uint8Array;
  readonly createRevision: bigint;
  readonly modRevision: bigint;
}

/** Reads a range of keys with the permissions of root. */
export type ReadKeys = (request: Message) => Promise<readonly QueueKey[]>;

/** Reads the keys of a queue, oldest first. */
async function queue(read: ReadKeys, name: string): Promise<readonly QueueKey[]> {
  const sorted = { sortOrder: ASCENDING, sortTarget: BY_CREATE_REVISION };
  return read({ key: latin1(`${name}/`), rangeEnd: latin1(`${name}0`), ...sorted });
}

/** A call of `lock` or `campaign`, which may wait until the keys of other contenders are deleted. */
export class WaitingCall {
  readonly rpc: string;
  readonly #name: string;
  readonly #read: ReadKeys;
  /** The keys of the queue before the call. */
  readonly #before: ReadonlySet<string>;
  /** The queue key of the call. Undefined if the server chooses the lease, and so the key. */
  readonly #ownKey: string | undefined;
  #createRevision: bigint | undefined;
  outcome: Outcome | undefined;
  /** Whether the outcome is part of an answer already. */
  reported = false;

  private constructor(rpc: string, name: string, lease: bigint, before: readonly QueueKey[], read: ReadKeys) {
    this.rpc = rpc;
    this.#name = name;
    this.#read = read;
    this.#before = new Set(before.map(textOf));
    this.#ownKey = lease === 0n ? undefined : `${name}/${lease.toString(16)}`;
  }

  static async start(
    rpc: string,
    { name, lease }: { readonly name: string; readonly lease: bigint },
    read: ReadKeys,
    call: () => Promise<Outcome>,
  ): Promise<WaitingCall> {
    const waiting = new WaitingCall(rpc, name, lease, await queue(read, name), read);
    void call().then((outcome) => {
      waiting.outcome = outcome;
    });
    return waiting;
  }

  /** Resolves when the call has ended, or when it waits for another contender. */
  async settle(): Promise<void> {
    const start = performance.now();
    while (this.outcome === undefined && performance.now() < start + RESPONSE_LIMIT_MS) {
      if ((await this.#isBlocked()) && performance.now() >= start + this.#doubtMs) return;
      await pause(POLL_MS);
    }
  }

  /** How long `settle` still waits for the end of a call that seems to wait, in milliseconds. */
  get #doubtMs(): number {
    return this.#ownKey !== undefined && this.#before.has(this.#ownKey) ? DOUBT_MS : 0;
  }

  async #isBlocked(): Promise<boolean> {
    const keys = await queue(this.#read, this.#name);
    const isOwn = (key: QueueKey): boolean =>
      this.#ownKey === undefined ? !this.#before.has(textOf(key)) : textOf(key) === this.#ownKey;
    this.#createRevision ??= keys.find(isOwn)?.createRevision;
    const own = this.#createRevision;
    return own !== undefined && keys.some(({ createRevision }) => createRevision < own);
  }
}

/** A call of `observe`, which sends each leader of an election. */
export class Observer {
  readonly #name: string;
  readonly #stream: OpenStream;
  readonly #read: ReadKeys;
  #taken = 0;
  #reportedEnd = false;

  constructor(name: string, stream: OpenStream, read: ReadKeys) {
    this.#name = name;
    this.#stream = stream;
    this.#read = read;
  }

  /** Resolves when the current leader has arrived. */
  async settle(): Promise<void> {
    const [leader] = await queue(this.#read, this.#name);
    if (leader === undefined) return;
    const hasArrived = (): boolean => {
      const last = this.#stream.messages.at(-1)?.kv as QueueKey | undefined;
      return this.#stream.ended || (last !== undefined && last.modRevision >= leader.modRevision);
    };
    const deadline = performance.now() + RESPONSE_LIMIT_MS;
    while (!hasArrived() && performance.now() < deadline) await pause(POLL_MS);
  }

  /** Waits until the call has ended, at most for `RESPONSE_LIMIT_MS`. The call ends at once if the caller may not read the
   * keys of the election. */
  async untilEnded(): Promise<void> {
    const deadline = performance.now() + RESPONSE_LIMIT_MS;
    while (!this.#stream.ended && performance.now() < deadline) await pause(POLL_MS);
  }

  /**
   * Returns the leaders that have arrived since the last call of `take`, and the end of the call if it has ended since
   * then. Undefined if there was neither.
   */
  take(normalizer: Normalizer): Normal | undefined {
    const fresh = this.#stream.messages.slice(this.#taken);
    this.#taken = this.#stream.messages.length;
    const leaders = fresh.map((message) => normalizer.message('v3electionpb.LeaderResponse', message));
    if (this.#stream.ended && !this.#reportedEnd) {
      this.#reportedEnd = true;
      const { error } = this.#stream;
      leaders.push(error === undefined ? 'OK' : `${error.code}: ${error.problem}`);
    }
    return leaders.length === 0 ? undefined : leaders;
  }

  close(): void {
    this.#stream.outgoing.cancel();
  }
}

function textOf({ key }: QueueKey): string {
  return Buffer.from(key).toString('latin1');
}
