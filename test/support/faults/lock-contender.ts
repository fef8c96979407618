import { sharedClockMs } from '../../../scripts/shared-clock.js';
import { Mutex, Session } from '../../../src/concurrency/index.js';
import { Client, EtcdError, op } from '../../../src/index.js';
import type { Claim } from '../../../src/testing/index.js';

/** What a contender tells its parent. */
export type ContenderMessage =
  | { readonly type: 'held'; readonly token: string; readonly wallMs: number }
  /** It stops now, between its look at the lock and its write, until it gets a SIGCONT. */
  | { readonly type: 'stops'; readonly token: string }
  /** A write to something outside of etcd, made as the holder. */
  | { readonly type: 'write'; readonly token: string }
  /** What a holder sees of itself in the turn in which its event loop goes on. */
  | { readonly type: 'woken'; readonly token: string; readonly valid: boolean; readonly aborted: boolean }
  | { readonly type: 'claim'; readonly claim: Omit<Claim, 'token' | 'holder'> & { readonly token: string } }
  | { readonly type: 'session lost'; readonly reason: string };

/** What its parent tells a contender: what is to befall it the next time that it holds the lock. */
export type MishapMessage = { readonly blockMs: number } | { readonly stop: true };

/** Between a look at the lock and the write that it is to protect. */
const WORK_MS = 40;

// A contender in a process of its own, which can be paused: it takes the lock again and again.
//   tsx lock-contender.ts <endpoints> <lock> <guarded key> <ttl>

const [endpoints = '', name = '', guarded = '', ttl = ''] = process.argv.slice(2);
let mishap: MishapMessage | undefined;
process.on('message', (message: MishapMessage) => {
  mishap = message;
});
process.on('disconnect', () => process.exit());
await using client = new Client({ endpoints: endpoints.split(',') });

for (;;) {
  try {
    await using session = await Session.open(client, { ttl: Number(ttl) });
    const mutex = new Mutex(session, name);
    while (session.signal.aborted === false) await cycle(mutex);
    tell({ type: 'session lost', reason: (session.signal.reason as EtcdError).reason });
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
  }
}

async function cycle(mutex: Mutex): Promise<void> {
  const held = await mutex.lock();
  const token = String(held.token);
  let claim: { readonly fromMs: number; readonly untilMs: number } | undefined;
  const holds = (): boolean => {
    // Read first: it was held at this time if it is so afterwards.
    const nowMs = sharedClockMs();
    if (!held.valid()) return false;
    claim = { fromMs: claim?.fromMs ?? nowMs, untilMs: nowMs };
    return true;
  };
  try {
    tell({ type: 'held', token, wallMs: Date.now() });
    if (holds()) {
      const befalls = mishap;
      mishap = undefined;
      work(befalls !== undefined && 'blockMs' in befalls ? befalls.blockMs : WORK_MS);
      if (befalls !== undefined && 'stop' in befalls) stop(token);
      if (befalls !== undefined) tell({ type: 'woken', token, aborted: held.signal.aborted, valid: held.valid() });
      tell({ type: 'write', token });
      await held.txn({ then: [op.put(guarded, token)] });
    }
    holds();
  } finally {
    if (claim !== undefined) tell({ type: 'claim', claim: { token, ...claim } });
    await held.release();
  }
}

/** Without a turn of the event loop, so that nothing of the loss of a lock is heard meanwhile. */
function work(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

function stop(token: string): void {
  tell({ type: 'stops', token });
  process.kill(process.pid, 'SIGSTOP');
}

function tell(message: ContenderMessage): void {
  process.send?.(message);
}
