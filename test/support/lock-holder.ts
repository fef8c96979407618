import { Client } from '../../src/index.js';
import { Session } from '../../src/locks.js';
import { EXCLUSIVES, type Exclusive, type ExclusiveName } from './exclusive.js';

// This program acquires a lock and holds it until the process is killed. PRIMITIVE is a name in exclusive.ts, such as
// Mutex or Election.
// Usage: lock-holder.ts ENDPOINT NAME TTL PRIMITIVE

const [endpoint = '', name = '', ttl = '', primitive = 'Mutex'] = process.argv.slice(2);
const client = new Client({ endpoints: [endpoint] });
const session = await Session.open(client, { ttl: Number(ttl) });
const { take }: Exclusive = EXCLUSIVES[primitive as ExclusiveName];
const held = await take(session, name);
process.stdout.write(`held ${held.token}\n`);
