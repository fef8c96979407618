import { createInterface } from 'node:readline';
import { Client, EtcdError, op } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';

// Holds a lock, and prints `held`. For each line of stdin, prints as JSON the state of a lease and of the lock as the
// client reports it, and whether a write under the lock succeeded.
// Usage: suspended-program.ts ENDPOINT NAME TTL

const [endpoint = '', name = '', ttl = ''] = process.argv.slice(2);
const client = new Client({ endpoints: [endpoint] });
const session = await Session.open(client, { ttl: Number(ttl) });
const held = await new Mutex(session, name).lock();
const granted = await client.lease.grant({ ttl: Number(ttl) });
process.stdout.write('held\n');
for await (const _ of createInterface({ input: process.stdin })) {
  const grantedLater = client.lease.keepAlive(granted);
  const believed = {
    granted: grantedLater.valid(),
    valid: held.valid(),
    remainingMs: session.remainingMs(),
    aborted: held.signal.aborted,
    problem: held.signal.aborted ? (held.signal.reason as EtcdError).problem : '',
  };
  await grantedLater.close();
  const wrote = await held.txn({ then: [op.put(`${name}-written`, 'x')] }).then(
    () => true,
    (error: unknown) => {
      if (error instanceof EtcdError) return false;
      throw error;
    },
  );
  process.stdout.write(`${JSON.stringify({ ...believed, wrote })}\n`);
}
