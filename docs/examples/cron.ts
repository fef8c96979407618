import { setTimeout as sleep } from 'node:timers/promises';
import { Client, op } from 'etcdwire';
import { lead, type Term } from 'etcdwire/locks';
import { fromEnv } from 'etcdwire/node';

const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
await using etcd = new Client(fromEnv());
await lead(etcd, 'cron', { value: `process ${process.pid}`, signal: stop.signal }, makeReports);

async function makeReports({ signal, held }: Term): Promise<void> {
  for (; !signal.aborted; await sleep(Number(process.env.INTERVAL_MS ?? 60_000), undefined, { signal }))
    await held.txn({ then: [op.put('reports/latest', `${process.pid} at ${new Date().toISOString()}`)] });
}
