import { type CoreClient, compare, EtcdError, op } from '../../../../src/core.js';
import { type Held, Mutex, Session } from '../../../../src/locks.js';
import type { Process } from '../../../../test/simulation/process.js';
import type { World } from '../../../../test/simulation/world.js';

/** The name of the lock, and the key of the ledger that the clients write. */
export const LOCK = 'jobs';
export const LEDGER = 'ledger';

/** TTL of the session of a client, in seconds. */
export const TTL_SECONDS = 5;
/** Maximum number of lines that a log keeps. */
const MAX_LINES = 50;
/** Time limit of a read in milliseconds. */
const READ_MS = 3_000;
const NOT_READ = { state: 'none', entry: '' } as const;

/** A line in the log of a client: what its program sees, or that its process was killed. */
export interface LogLine {
  readonly atMs: number;
  readonly text: string;
  readonly kind: 'info' | 'good' | 'bad';
}

/** What a program needs from the playground. */
interface Host {
  readonly world: World;
  readonly nowMs: number;
  readonly leaseNames: Map<string, string>;
  note(client: string, kind: 'held' | 'failure', label: string): void;
}

/** The program that a client runs. It uses etcdwire as any other program does. */
export class Application {
  readonly log: LogLine[] = [];
  /** The entries of the ledger that the watch has delivered, in their order. */
  readonly seen: string[] = [];
  isWaiting = false;
  /** Whether the program watches the ledger. */
  isWatching = false;
  /** What happened to the last write. */
  lastWrite: 'none' | 'pending' | 'applied' | 'refused' | 'unknown' = 'none';
  /** What happened to the last read: the entry that it returned, or why it returned none. */
  lastRead: { readonly state: 'none' | 'pending' | 'answered' | 'failed'; readonly entry: string } = NOT_READ;
  readonly #host: Host;
  readonly #name: string;
  readonly #process: Process;
  readonly #connect: () => CoreClient;
  #client: CoreClient | undefined;
  #session: Session | undefined;
  #held: Held | undefined;
  /** The lock that this program took last, even if it has lost it. */
  #lastHeld: Held | undefined;
  #stopWaiting = new AbortController();
  #stopWatching = new AbortController();
  #entries = 0;

  constructor(host: Host, name: string, process: Process, connect: () => CoreClient) {
    this.#host = host;
    this.#name = name;
    this.#process = process;
    this.#connect = connect;
  }

  /** The fencing token of the lock that the program holds. */
  get token(): bigint | undefined {
    return this.#held?.token;
  }

  /** The fencing token of a lock that the program has lost, and with which it still writes. */
  get oldToken(): bigint | undefined {
    return this.#held === undefined ? this.#lastHeld?.token : undefined;
  }

  /** The key of this client in the queue. */
  get queueKey(): string | undefined {
    return this.#session && `${LOCK}/${this.#session.leaseId.toString(16)}`;
  }

  lock(): void {
    this.#run('lock', async (client) => {
      if (this.#held !== undefined || this.isWaiting) return;
      this.isWaiting = true;
      this.say('asks for the lock');
      this.#stopWaiting = new AbortController();
      try {
        this.#session ??= await this.#openSession(client);
        const mutex = new Mutex(this.#session, LOCK, { value: this.#name });
        const held = await mutex.lock({ signal: this.#stopWaiting.signal });
        this.#onHeld(held);
      } catch (error) {
        if (!this.#stopWaiting.signal.aborted) throw error;
        this.say('left the queue');
      } finally {
        this.isWaiting = false;
      }
    });
  }

  /** Releases the lock, or leaves the queue. */
  unlock(): void {
    this.#run('unlock', async () => {
      if (this.isWaiting) return this.#stopWaiting.abort(new Error('the program no longer wants the lock'));
      const held = this.#held;
      this.#held = undefined;
      this.#lastHeld = undefined;
      if (held === undefined) return;
      await held.release();
      this.say('released the lock');
    });
  }

  /**
   * Writes an entry to the ledger. A program that took the lock writes with its fencing token, even if it has lost the
   * lock since. In this way, the page shows that etcd refuses the write of a stale holder.
   */
  write(): void {
    this.#run('write', async (client) => {
      this.#entries += 1;
      const entry = `${this.#name} ${this.#entries}`;
      this.lastWrite = 'pending';
      const held = this.#lastHeld;
      try {
        if (held === undefined) await client.put(LEDGER, entry);
        else {
          const isHolder = compare.createRevision(held.key, '==', held.token);
          const { succeeded } = await client.txn({ if: [isHolder], then: [op.put(LEDGER, entry)] });
          if (!succeeded) {
            this.lastWrite = 'refused';
            return this.say(`"${entry}" was refused: token ${held.token} is no longer the holder's`, 'bad');
          }
        }
        this.lastWrite = 'applied';
        this.say(`wrote "${entry}"`, 'good');
      } catch (error) {
        const isUnknown = error instanceof EtcdError && error.outcome === 'unknown';
        this.lastWrite = isUnknown ? 'unknown' : 'refused';
        if (!isUnknown) throw error;
        // The outcome comes first, because a card shows only the beginning of a line.
        this.say(`outcome unknown: etcd may have written "${entry}" (${error.problem})`, 'bad');
      }
    });
  }

  /**
   * Reads the ledger. A linearizable read returns the latest committed entry, or no answer. A serializable read returns
   * what the member has, which may be old.
   */
  read(kind: 'linearizable' | 'serializable'): void {
    this.#run('read', async (client) => {
      this.lastRead = { state: 'pending', entry: '' };
      try {
        const serializable = kind === 'serializable';
        const { header, kvs } = await client.range(LEDGER, { serializable, timeoutMs: READ_MS });
        const entry = kvs[0]?.text() ?? '';
        this.lastRead = { state: 'answered', entry };
        this.say(`reads "${entry}" (${kind}), revision ${header.revision}`, 'good');
      } catch (error) {
        this.lastRead = { state: 'failed', entry: '' };
        throw error;
      }
    });
  }

  /** Starts or stops the watch of the ledger. */
  watch(): void {
    this.#run('watch', async (client) => {
      if (this.isWatching) return this.#stopWatching.abort(new Error('the program no longer watches'));
      this.isWatching = true;
      this.say('watches the ledger');
      this.#stopWatching = new AbortController();
      try {
        await this.#follow(client, this.#stopWatching.signal);
      } finally {
        this.isWatching = false;
      }
    });
  }

  async #follow(client: CoreClient, signal: AbortSignal): Promise<void> {
    let startRevision = 0n;
    for (;;) {
      try {
        for await (const event of client.watch(LEDGER, { startRevision, signal })) {
          const entry = event.type === 'put' ? event.kv.text() : 'deleted';
          this.seen.push(entry);
          this.say(`sees "${entry}", revision ${event.modRevision}`, 'good');
        }
        return;
      } catch (error) {
        if (signal.aborted) return this.say('stopped the watch');
        if (!(error instanceof EtcdError && error.reason === 'Compacted')) throw error;
        // etcd has forgotten the events, so the program reads the ledger, and watches from the revision of this read.
        this.say(`the watch ended: revisions before ${error.compactRevision} are compacted`, 'bad');
        const { header, kvs } = await client.range(LEDGER);
        const [entry] = kvs.map((kv) => kv.text());
        if (entry !== undefined) this.seen.push(entry);
        this.say(`reads the ledger: "${entry ?? ''}", revision ${header.revision}`);
        startRevision = header.revision + 1n;
      }
    }
  }

  async #openSession(client: CoreClient): Promise<Session> {
    const session = await Session.open(client, { ttl: TTL_SECONDS });
    this.#host.leaseNames.set(session.leaseId.toString(16), this.#name);
    session.signal.addEventListener('abort', () => {
      if (this.#session === session) this.#session = undefined;
      this.say(`lost the session: ${messageOf(session.signal.reason)}`, 'bad');
    });
    return session;
  }

  #onHeld(held: Held): void {
    this.#held = held;
    this.#lastHeld = held;
    this.#host.note(this.#name, 'held', `${this.#name} HOLDS THE LOCK, token ${held.token}`);
    this.say(`holds the lock, fencing token ${held.token}`, 'good');
    held.signal.addEventListener('abort', () => {
      // After `unlock`, the lock was released and not lost.
      if (this.#held !== held) return;
      this.#held = undefined;
      this.#host.note(this.#name, 'failure', `${this.#name} learns that it lost the lock`);
      this.say(`lost the lock: ${messageOf(held.signal.reason)}`, 'bad');
    });
  }

  /** Runs a part of the program in the process of the program. Prints the error of this part to the log. */
  #run(what: string, action: (client: CoreClient) => Promise<void>): void {
    this.#host.world.soon(this.#process, what, () => {
      this.#client ??= this.#connect();
      action(this.#client).catch((error: unknown) => this.say(`${what}: ${messageOf(error)}`, 'bad'));
    });
  }

  /** Adds a line to the log. */
  say(text: string, kind: LogLine['kind'] = 'info'): void {
    this.log.push({ atMs: this.#host.nowMs, text, kind });
    if (this.log.length > MAX_LINES) this.log.shift();
  }
}

function messageOf(error: unknown): string {
  // The message of an `EtcdError` also names the method and the endpoint, which are the same in all lines.
  return error instanceof EtcdError ? error.problem : error instanceof Error ? error.message : String(error);
}
