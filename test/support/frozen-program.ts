import { createInterface } from 'node:readline';
import { Client, EtcdError } from '../../src/index.js';

// Puts a key, and prints `ready`. Then puts the value `after` for each key that it reads from stdin, and prints the
// outcome and the duration in milliseconds. If the process is suspended (SIGSTOP) when a key arrives, it makes the put
// as soon as it is resumed.
// Usage: frozen-program.ts KEY ENDPOINT...

const [key = '', ...endpoints] = process.argv.slice(2);
const client = new Client({ endpoints, balance: 'in-order' });
await client.put(key, 'before');
process.stdout.write('ready\n');
for await (const line of createInterface({ input: process.stdin })) {
  const startedAt = performance.now();
  const outcome = await client.put(line, 'after').then(
    () => 'ok',
    (error: unknown) => {
      if (!(error instanceof EtcdError)) throw error;
      return error.outcome;
    },
  );
  process.stdout.write(`${outcome} ${Math.round(performance.now() - startedAt)}\n`);
}
