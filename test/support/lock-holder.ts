import { Mutex, Session } from '../../src/concurrency/index.js';
import { Client } from '../../src/index.js';

// A process of its own that takes a lock and keeps it until it is killed: lock-holder.ts ENDPOINT NAME TTL

const [endpoint = '', name = '', ttl = ''] = process.argv.slice(2);
const client = new Client({ endpoints: [endpoint] });
const session = await Session.open(client, { ttl: Number(ttl) });
const held = await new Mutex(session, name).lock();
process.stdout.write(`held ${held.token}\n`);
