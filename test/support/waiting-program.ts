import { Client, EtcdError } from '../../src/index.js';

// Makes one call, and prints `answered` or the reason and outcome of the error. Does not close the client, so that a
// test can check that the process exits anyway.
// Usage: waiting-program.ts ENDPOINT TIMEOUT_MS

const [endpoint = '', timeoutMs] = process.argv.slice(2);
const client = new Client({ endpoints: [endpoint], timeoutMs: Number(timeoutMs) });
try {
  await client.get('a');
  process.stdout.write('answered\n');
} catch (error) {
  if (!(error instanceof EtcdError)) throw error;
  process.stdout.write(`${error.reason}, ${error.outcome}\n`);
}
