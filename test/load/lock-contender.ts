import { sharedClockMs } from '../../scripts/shared-clock.js';
import { Client, EtcdError, op } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import type { Claim } from '../../src/testing/index.js';

/**
 * A message from a contender, which is a process that runs this program, to its parent process. `fault` is the number
 * that the parent gave to the fault.
 */
export type ContenderMessage =
  | { readonly type: 'held'; readonly token: string; readonly wallMs: number }
  /**
   * The process is about to suspend itself (SIGSTOP), after it has found the lock valid and before it writes. It
   * continues on SIGCONT.
   */
  | { readonly type: 'stopping'; readonly fault: number; readonly token: string }
  /** The holder writes to a resource outside of etcd. */
  | { readonly type: 'write'; readonly token: string }
  /** The state of the lock that the holder reads immediately after the fault, before any other code runs. */
  | {
      readonly type: 'resumed';
      readonly fault: number;
      readonly token: string;
      readonly valid: boolean;
      readonly aborted: boolean;
    }
  | { readonly type: 'claim'; readonly claim: Omit<Claim, 'token' | 'holder'> & { readonly token: string } }
  | { readonly type: 'session lost'; readonly reason: string };

/**
 * A message from the parent: the fault that hits the contender the next time that it holds the lock. A newer fault
 * replaces a fault that has not happened yet.
 */
export type FaultMessage = { readonly fault: number } & ({ readonly blockMs: number } | { readonly stop: true });

/**
 * The time, in milliseconds, for which the holder works between its check of the lock and the write that the lock
 * protects.
 */
const WORK_MS = 40;

// This program is a contender in a separate process, which the parent can suspend. The program acquires and releases
// the lock again and again.
// Usage: lock-contender.ts ENDPOINTS LOCK GUARDED_KEY TTL

const [endpoints = '', name = '', guarded = '', ttl = ''] = process.argv.slice(2);
let nextFault: FaultMessage | undefined;
process.on('message', (message: FaultMessage) => {
  nextFault = message;
});
process.on('disconnect', () => process.exit());
await using client = new Client({ endpoints: endpoints.split(',') });

for (;;) {
  try {
    await using session = await Session.open(client, { ttl: Number(ttl) });
    const mutex = new Mutex(session, name);
    try {
      while (session.signal.aborted === false) await cycle(mutex);
    } finally {
      if (session.signal.aborted) send({ type: 'session lost', reason: (session.signal.reason as EtcdError).reason });
    }
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
  }
}

async function cycle(mutex: Mutex): Promise<void> {
  const held = await mutex.lock();
  const token = String(held.token);
  let claim: { readonly fromMs: number; readonly untilMs: number } | undefined;
  const holds = (): boolean => {
    // Read the clock first, because a lock that is valid afterwards was also valid at this time.
    const nowMs = sharedClockMs();
    if (!held.valid()) return false;
    claim = { fromMs: claim?.fromMs ?? nowMs, untilMs: nowMs };
    return true;
  };
  try {
    send({ type: 'held', token, wallMs: Date.now() });
    if (holds()) {
      const fault = nextFault;
      nextFault = undefined;
      blockEventLoop(fault !== undefined && 'blockMs' in fault ? fault.blockMs : WORK_MS);
      if (fault !== undefined) {
        if ('stop' in fault) stop(fault.fault, token);
        send({ type: 'resumed', fault: fault.fault, token, aborted: held.signal.aborted, valid: held.valid() });
      }
      send({ type: 'write', token });
      await held.txn({ then: [op.put(guarded, token)] });
    }
    holds();
  } finally {
    if (claim !== undefined) send({ type: 'claim', claim: { token, ...claim } });
    await held.release();
  }
}

/** Blocks the event loop, so that the client cannot process the loss of its lock until the block ends. */
function blockEventLoop(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

function stop(fault: number, token: string): void {
  send({ type: 'stopping', fault, token });
  process.kill(process.pid, 'SIGSTOP');
}

function send(message: ContenderMessage): void {
  process.send?.(message);
}
