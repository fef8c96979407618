import { EtcdLockFailedError, GRPCUnavailableError } from 'etcd3';
import type { Container } from './container.js';
import type { Flag } from './store.js';

interface Request {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly body?: unknown;
}
interface Response {
  status(code: number): Response;
  json(body: unknown): void;
}
type Handler = (request: Request, response: Response) => Promise<void>;
interface Router {
  get(path: string, handler: Handler): void;
  put(path: string, handler: Handler): void;
  delete(path: string, handler: Handler): void;
  post(path: string, handler: Handler): void;
}

export function register(router: Router, container: Container): void {
  const { etcd, flags } = container;

  router.get('/flags', async (request, response) => {
    response.json({ names: await flags.names(Number(request.query.limit ?? 100)), count: await flags.count() });
  });

  router.get('/flags/:name', async ({ params: { name = '' } }, response) => {
    const flag = await flags.get(name);
    if (flag === undefined) response.status(404).json({ error: 'unknown flag' });
    else response.json(flag);
  });

  router.put('/flags/:name', async ({ body }, response) => {
    try {
      await etcd
        .lock('locks/flags')
        .ttl(10)
        .do(async () => {
          await flags.save(body as Flag);
          await etcd.put('flags-changed').value(Date.now());
        });
      response.json({ ok: true });
    } catch (error) {
      if (error instanceof EtcdLockFailedError) response.status(409).json({ error: 'locked' });
      else if (error instanceof GRPCUnavailableError) response.status(503).json({ error: 'etcd is unavailable' });
      else throw error;
    }
  });

  router.delete('/flags/:name', async ({ params: { name = '' } }, response) => {
    response.status((await flags.remove(name)) ? 204 : 404).json({});
  });

  router.post('/reset', async (_request, response) => {
    const { deleted } = await etcd.delete().prefix('flags/');
    const rest = await etcd.getAll().prefix('flags/').keys();
    response.json({ deleted, rest });
  });

  router.get('/ready', async (_request, response) => {
    const { generation = 0 } = ((await etcd.get('flags-settings').json()) ?? {}) as { generation?: number };
    const isChanged = await etcd.get('flags-changed').exists();
    const members = await etcd.cluster.memberList({});
    response.json({ generation, isChanged, members: members.members.length });
  });
}
