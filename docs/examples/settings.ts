import { Client, prefix } from 'etcdwire';
import { fileStore, fromEnv } from 'etcdwire/node';
import { persisted } from 'etcdwire/recipes';

await using etcd = new Client(fromEnv());
const file = fileStore(process.env.COPY ?? 'settings.copy');
await using settings = await persisted(etcd, prefix('settings/'), file, { onNotice: console.error });
process.once('SIGTERM', () => settings.close());
for await (const { key, kv } of settings.changes({ initial: true }))
  console.log(key, kv?.text(), settings.state.status);
