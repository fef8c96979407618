import { Client, EtcdError, health, keyRange } from 'etcdwire';
import { fromEnv } from 'etcdwire/node';
import express from 'express';

const etcd = new Client({ ...fromEnv(), retryWrites: true });
const app = express();
app.use(express.json());
app.get('/ready', async (_, res) => void res.sendStatus((await health(etcd, { timeoutMs: 500 })).canServe ? 200 : 503));
app.get('/users', async ({ query }, res) => {
  // A page begins after the last name of the previous page. The prefix 'users/' ends at 'users0', because 0 follows /.
  const { kvs, more } = await etcd.range(keyRange(`users/${query.after ?? ''}\0`, 'users0'), { limit: 100 });
  res.json({ users: kvs, after: more ? kvs.at(-1)?.key.slice('users/'.length) : undefined });
});
app.put('/users/:name', async ({ params, body }, res) => {
  res.json(await etcd.put(`users/${params.name}`, JSON.stringify(body)));
});
app.use((error: unknown, _: express.Request, res: express.Response, next: express.NextFunction) => {
  if (!(error instanceof EtcdError)) return next(error);
  res.status(503).json({ reason: error.reason, outcome: error.outcome });
});
const server = app.listen(Number(process.env.PORT));
process.once('SIGTERM', () => server.close(() => etcd.close())); // when all requests have been answered
