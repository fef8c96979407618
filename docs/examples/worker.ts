import { Client, json, op } from 'etcdwire';
import { fromEnv } from 'etcdwire/node';
import { WorkQueue } from 'etcdwire/recipes';

const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
await using etcd = new Client(fromEnv());
const thumbnails = new WorkQueue(etcd, 'thumbnails', { codec: json<{ image: string }>(), maxAttempts: 3 });
const [command, ...ids] = process.argv.slice(2);

if (command === 'add') {
  for (const id of ids) await thumbnails.enqueue({ image: id }, { id });
} else if (command === 'dead') {
  for (const { id, attempts, error } of await thumbnails.dead()) console.log(id, attempts, error);
} else {
  await thumbnails.work(
    { concurrency: 4, signal: stop.signal, onFailure: (error, { id }) => console.error(id, error) },
    async (job) => {
      const { image } = job.value;
      if (image.startsWith('broken')) throw new Error('not an image');
      await job.complete([op.put(`done/${job.id}`, `thumbnail of ${image}`)]);
    },
  );
}
