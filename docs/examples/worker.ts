import { Client, op } from 'etcdwire';
import { fromEnv } from 'etcdwire/node';
import { WorkQueue } from 'etcdwire/recipes';

const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
await using etcd = new Client(fromEnv());
const thumbnails = new WorkQueue(etcd, 'thumbnails', { maxAttempts: 3 });
const [command, ...ids] = process.argv.slice(2);

if (command === 'add') {
  for (const id of ids) await thumbnails.enqueue(JSON.stringify({ image: id }), { id });
} else if (command === 'dead') {
  for (const { id, attempts, error } of await thumbnails.dead()) console.log(id, attempts, error);
} else {
  await thumbnails.work(
    { concurrency: 4, signal: stop.signal, onFailure: (error, { id }) => console.error(id, error) },
    async (job) => {
      const { image } = job.json((value) => value as { image: string });
      if (image.startsWith('broken')) throw new Error('not an image');
      await job.complete([op.put(`done/${job.id}`, `thumbnail of ${image}`)]);
    },
  );
}
