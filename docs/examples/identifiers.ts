import { createServer } from 'node:http';
import { Client } from 'etcdwire';
import { Session } from 'etcdwire/locks';
import { fromEnv } from 'etcdwire/node';
import { RateLimiter, Slots } from 'etcdwire/recipes';

const etcd = new Client(fromEnv());
const session = await Session.open(etcd, { ttl: 10 });
const { number, held } = await new Slots(session, 'identifiers', 1_024).take();
held.signal.addEventListener('abort', () => process.exit(1)); // another process may get the number
let last = 0n;
const server = createServer(async ({ url }, response) => {
  const limiter = new RateLimiter(etcd, `identifier-rates${url}`, { perSecond: 1, burst: 20 });
  if (!(await limiter.tryTake().catch(() => false))) return response.writeHead(429).end();
  last = last < BigInt(Date.now()) << 12n ? BigInt(Date.now()) << 12n : last + 1n; // 4,096 in a millisecond
  response.end(held.valid() ? String((last << 10n) | BigInt(number)) : undefined);
}).listen(process.env.PORT);
await new Promise((resolve) => process.once('SIGTERM', resolve));
await new Promise((resolve) => server.close(resolve));
process.exit(); // without `close`, the number stays taken for 10 s, and the clocks of two machines differ by less
