import { inspect } from 'node:util';
import { grpcJs } from '../../src/grpc-js.js';
import { Client, prefix } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';

// This program prints all of its objects and errors, and exits with an uncaught error. A test passes unique texts,
// called canaries, as the key, the value and the password, and searches the output for them.
// Usage: canary-program.ts ENDPOINT TRANSPORT KEY VALUE PASSWORD

const [endpoint = '', transport = '', key = '', value = '', password = ''] = process.argv.slice(2);
const options = transport === 'grpc-js' ? { transport: grpcJs() } : {};

const client = new Client({ ...options, endpoints: [endpoint] });
const stranger = new Client({
  ...options,
  endpoints: [endpoint],
  auth: { username: 'nobody', password, allowPlaintext: true },
});
await client.put(key, value);
await client.txn({ then: [{ type: 'put', key, value, options: {} }] });
const watch = client.watch(prefix(key), { startRevision: 1n });
await watch.created();
const session = await Session.open(client);
const held = await new Mutex(session, 'canary-program').lock();
const cached = await client.cachedRange(prefix(key));
const failures = await Promise.allSettled([
  stranger.put(key, value),
  client.get(key, { revision: 1n << 60n }),
  client.put(key, value.repeat(200_000)),
  client.put(key, value, { signal: AbortSignal.abort() }),
  held.release().then(() => held.txn({ then: [] })),
]);
for (const each of [client, stranger, watch, session, held, cached, ...failures]) {
  console.log(each);
  console.error(inspect(each, { depth: Number.POSITIVE_INFINITY, showHidden: true, getters: true }));
  console.log('%o %O %j %s', each, each, String(each), each);
}
process.emitWarning(String(failures));
await session.close();
await cached.close();
await watch.close();
await client.close();
await stranger.close();
await client.put(key, value);
