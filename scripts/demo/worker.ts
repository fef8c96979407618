import { setTimeout as sleep } from 'node:timers/promises';
import { compare, op } from '../../src/index.js';
import { type Held, Mutex, Session } from '../../src/locks.js';
import { LEDGER, type LedgerEntry, LOCK, openClient, type WorkerEvent } from './shared.js';

// A worker of the demo, in a separate process. It takes the lock and writes ENTRIES entries to the ledger:
//   worker.ts ENDPOINTS NAME TTL ENTRIES

const [endpoints = '', name = '', ttl = '', entries = ''] = process.argv.slice(2);
const PAUSE_BETWEEN_ENTRIES_MS = 300;

const client = openClient(endpoints.split(','));
const session = await Session.open(client, { ttl: Number(ttl) });
const held = await new Mutex(session, LOCK).lock();
report({ type: 'holds', token: String(held.token) });
try {
  for (let entry = 1; entry <= Number(entries); entry += 1) {
    await append(held, entry);
    report({ type: 'wrote', entry });
    await sleep(PAUSE_BETWEEN_ENTRIES_MS);
    held.signal.throwIfAborted();
  }
  await held.release();
  report({ type: 'released' });
} catch (error) {
  report({ type: 'lost', why: (error as Error).message });
  await writeAfterLoss(held);
}
await session.close();
await client.close();

async function append(lock: Held, entry: number): Promise<void> {
  await lock.txn({ then: [op.put(ledgerKey(lock, entry), ledgerValue(lock, entry))] });
}

/** Writes like a holder that ignores the loss of its lock. The fencing token makes the server refuse the write. */
async function writeAfterLoss(lock: Held): Promise<void> {
  const { succeeded, header } = await client.txn({
    if: [compare.createRevision(lock.key, '==', lock.token)],
    then: [op.put(ledgerKey(lock, 99), ledgerValue(lock, 99))],
  });
  report({ type: succeeded ? 'wrote stale' : 'refused', revision: String(header.revision) });
}

function ledgerKey(lock: Held, entry: number): string {
  return `${LEDGER}${String(lock.token).padStart(12, '0')}/${String(entry).padStart(2, '0')}`;
}

function ledgerValue(lock: Held, entry: number): string {
  return JSON.stringify({ worker: name, token: String(lock.token), entry } satisfies LedgerEntry);
}

function report(event: WorkerEvent): void {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}
