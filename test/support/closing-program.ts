import { Client, prefix } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';

// This program opens a watch and a session, takes a lock, and closes the client. The process must then exit at once,
// although the next renewal of the lease would be due in 100 s.
// Usage: closing-program.ts ENDPOINT

const client = new Client({ endpoints: [process.argv[2] ?? ''] });
const watch = client.watch(prefix('closing/'));
await watch.created();
const session = await Session.open(client, { ttl: 300 });
await new Mutex(session, `closing-${process.pid}`).lock();
const unread = watch.batches().next();
unread.catch(() => {});
await client.close();
process.stdout.write('closed\n');
