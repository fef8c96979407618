import { Client, op } from '../../src/index.js';
import { lead } from '../../src/locks.js';

// This program campaigns until it receives SIGTERM. While it leads, it writes its token to a key again and again, with
// transactions that check its leadership. It prints "leading TOKEN" at the start of each term and "over" at its end.
// Usage: leading-program.ts ENDPOINT NAME TTL

const [endpoint = '', name = '', ttl = ''] = process.argv.slice(2);
const etcd = new Client({ endpoints: [endpoint] });
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
await lead(etcd, name, { value: `${process.pid}`, signal: stop.signal, ttl: Number(ttl) }, async ({ signal, held }) => {
  process.stdout.write(`leading ${held.token}\n`);
  try {
    while (!signal.aborted) {
      await held.txn({ then: [op.put(`${name}-written`, `${held.token}`)] });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  } finally {
    process.stdout.write('over\n');
  }
});
await etcd.close();
