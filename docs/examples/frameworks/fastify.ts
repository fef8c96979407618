import { Client, health } from 'etcdwire';
import { fromEnv } from 'etcdwire/node';
import fastify from 'fastify';

interface Key {
  Params: { key: string };
}

const etcd = new Client({ ...fromEnv(), retryWrites: true });
const app = fastify();
app.get('/ready', async (_, reply) => reply.code((await health(etcd, { timeoutMs: 500 })).canServe ? 200 : 503).send());
app.get<Key>('/keys/:key', async ({ params }, reply) => (await etcd.get(params.key)) ?? reply.code(404).send());
app.put<Key>('/keys/:key', ({ params, body }) => etcd.put(params.key, JSON.stringify(body)));
app.addHook('onClose', () => etcd.close()); // when all requests have been answered
process.once('SIGTERM', () => app.close());
await app.listen({ port: Number(process.env.PORT) });
