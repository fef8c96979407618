import { createServer } from 'node:http';
import { Client, json, typed } from 'etcdwire';
import { fromEnv } from 'etcdwire/node';

interface Settings {
  readonly greeting: string;
  readonly limit: number;
}

function parse(value: unknown): Settings {
  const { greeting, limit } = Object(value);
  if (typeof greeting !== 'string' || !(limit > 0)) throw new TypeError('need a text greeting and a limit above 0');
  return { greeting, limit };
}

await using etcd = new Client(fromEnv());
await using settings = await typed(etcd, 'settings/', json(parse)).cachedRange();
process.once('SIGTERM', () => settings.cached.close());
let current: Settings = { greeting: 'hello', limit: 10 };
const server = createServer((_, response) => response.end(JSON.stringify(current))).listen(process.env.PORT);
for await (const { name, kv } of settings.changes({ initial: true })) {
  if (name !== 'web') continue;
  if (kv?.error === undefined) current = kv?.value ?? current;
  else console.error('kept the present settings:', kv.error.cause);
}
server.close();
