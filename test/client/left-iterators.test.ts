import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { canceled } from '../../src/base/etcd-error.js';
import { type Client, type Interceptor, prefix } from '../../src/index.js';
import { Election, observe, Session } from '../../src/locks.js';
import { history, Service } from '../../src/recipes.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';

// `return` of an iterator must not wait for a pending `next`, which may wait for an event that never happens.

type Options = { readonly signal: AbortSignal };
type Iterate = (
  etcd: Client,
  name: string,
  options: Options,
) => AsyncIterator<unknown> | Promise<AsyncIterator<unknown>>;

/** Iterators by the methods that return them. The server, or the interceptor `unanswered`, leaves their `next` pending. */
const ITERATORS: Readonly<Record<string, Iterate>> = {
  'Client.mirror': (etcd, name, options) =>
    etcd.mirror(prefix(name), { ...options, fromRevision: 1n })[Symbol.asyncIterator](),
  observe: (etcd, name, options) => observe(etcd, name, options),
  'Election.observe': async (etcd, name, options) => new Election(await Session.open(etcd), name).observe(options),
  'Service.watch': async (etcd, name, options) => {
    const updates = new Service(etcd, name).watch(options);
    await updates.next();
    return updates;
  },
  'Client.watch': (etcd, name, options) => etcd.watch(name, options)[Symbol.asyncIterator](),
  'Watch.batches': (etcd, name, options) => etcd.watch(name, options).batches(),
  'Client.scan': (etcd, name, options) => unanswered(etcd).scan(prefix(name), options),
  history: (etcd, name, options) => history(unanswered(etcd), name, options),
  'Client.mirror that reads': (etcd, name, options) => unanswered(etcd).mirror(name, options)[Symbol.asyncIterator](),
  'Maintenance.snapshot': (etcd, _, options) =>
    unanswered(etcd)
      .maintenance.snapshot(etcd.endpoints[0] as string, options)
      [Symbol.asyncIterator](),
};

/** Returns a client whose calls and streams get no answer until they are canceled. */
function unanswered({ endpoints }: Client): Client {
  const interceptor: Interceptor = {
    unary: ({ signal }) =>
      new Promise((_, reject) => {
        signal?.addEventListener('abort', () => reject(canceled(signal, 'not-sent')));
      }),
    stream: (call, handler, next) => next(call, { ...handler, message: () => {} }),
  };
  return openClient({ endpoints, interceptors: [interceptor] });
}

test.for(Object.entries(ITERATORS))(
  'the iterator of `%s` ends at once when `return` is called while `next` is pending',
  { timeout: 20_000 },
  async ([, iterate]) => {
    const { signal } = new AbortController();
    const items = await iterate(openClient(), unique('left'), { signal });
    const pending = items.next();
    expect(await items.return?.()).toEqual({ done: true, value: undefined });
    expect(await pending).toEqual({ done: true, value: undefined });
    expect(await items.next()).toEqual({ done: true, value: undefined });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  },
);

test.for(Object.entries(ITERATORS))(
  "the iterator of `%s` throws with reason `Canceled` when the caller's signal aborts while `next` is pending",
  { timeout: 20_000 },
  async ([, iterate]) => {
    const controller = new AbortController();
    const items = await iterate(openClient(), unique('left'), { signal: controller.signal });
    const pending = errorOf(items.next());
    controller.abort();
    expect(await pending).toMatchObject({ reason: 'Canceled' });
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  },
);

test("a loop over a mirror leaves no listener on the caller's signal when it ends at the first page", async () => {
  const [etcd, name] = [openClient(), unique('left')];
  await etcd.put(name, 'x');
  const { signal } = new AbortController();
  for await (const { type } of etcd.mirror(name, { signal })) {
    expect(type).toBe('keys');
    break;
  }
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});
