import { Cron } from 'croner';
import { Client, op, prefix } from 'etcdwire';
import { fromEnv } from 'etcdwire/node';
import { schedule, type Tick } from 'etcdwire/recipes';

const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
await using etcd = new Client(fromEnv());
const nights = new Cron(process.env.CRON ?? '0 2 * * *', { timezone: 'UTC' });
const report = async (tick: Tick) => {
  const { count } = await etcd.range(prefix('orders/'), { countOnly: true });
  await tick.complete([op.put(`reports/${tick.time.toISOString()}`, `${count} orders, run ${tick.attempt}`)]);
};
await schedule(etcd, 'nightly', (after) => nights.nextRun(after), { signal: stop.signal }, report);
