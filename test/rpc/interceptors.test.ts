import { expect, test } from 'vitest';
import { EtcdError, type Interceptor } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { authEtcd, USER } from '../support/auth-etcd.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';
import { valueText } from '../support/watch-events.js';

/** Returns an interceptor that adds the method of each call and stream to `notes`. Each note begins with `name`. */
function recording(notes: string[], name = ''): Interceptor {
  return {
    async unary(call, next) {
      notes.push(`${name}>${call.method.path}`);
      try {
        return await next(call);
      } finally {
        notes.push(`${name}<${call.method.path}`);
      }
    },
    stream(call, handler, next) {
      notes.push(`${name}~${call.method.path}`);
      return next(call, handler);
    },
  };
}

test('the first interceptor in the list is the outermost', async () => {
  const notes: string[] = [];
  const etcd = openClient({ interceptors: [recording(notes, 'a'), recording(notes, 'b')] });
  await etcd.put(unique(), 'x');
  const path = '/etcdserverpb.KV/Put';
  expect(notes).toEqual([`a>${path}`, `b>${path}`, `b<${path}`, `a<${path}`]);
});

test('an interceptor sees the calls and streams of locks, watches and namespaces', async () => {
  const notes: string[] = [];
  const etcd = openClient({ interceptors: [recording(notes)] });
  await using session = await Session.open(etcd.namespace('app/'));
  await using _held = await new Mutex(session, unique()).lock();
  const watch = etcd.watch(unique());
  await watch.created();
  expect(new Set(notes.filter((note) => !note.startsWith('<')))).toEqual(
    new Set(['>/etcdserverpb.Lease/LeaseGrant', '>/etcdserverpb.KV/Txn', '~/etcdserverpb.Watch/Watch']),
  );
  await watch.close();
});

test('an interceptor can change the request of a call, and can reject the call', async () => {
  const key = unique();
  const upper: Interceptor = {
    unary: (call, next) => {
      if (call.method.path !== '/etcdserverpb.KV/Put') return next(call);
      return next({
        ...call,
        request: { ...(call.request as object), value: Buffer.from('changed') } as typeof call.request,
      });
    },
  };
  await openClient({ interceptors: [upper] }).put(key, 'given');
  expect((await openClient().get(key))?.text()).toBe('changed');

  const refuses: Interceptor = {
    unary: async () => {
      throw new EtcdError('refused by the interceptor', { code: 'Aborted', reason: 'Other', outcome: 'not-sent' });
    },
  };
  expect(await errorOf(openClient({ interceptors: [refuses] }).put(key, 'x'))).toMatchObject({ outcome: 'not-sent' });
});

test('an interceptor receives the messages and the end of a stream', async () => {
  const key = unique();
  let [messages, ended] = [0, 0];
  const counts: Interceptor = {
    stream: (call, handler, next) =>
      next(call, {
        ...handler,
        message: (message) => {
          messages += 1;
          handler.message(message);
        },
        end: (error) => {
          ended += 1;
          handler.end(error);
        },
      }),
  };
  const { endpoints } = await ownEtcd();
  const etcd = openClient({ endpoints, interceptors: [counts] });
  const watch = etcd.watch(key);
  await watch.created();
  await etcd.put(key, 'x');
  for await (const event of watch) {
    expect(valueText(event)).toBe('x');
    break;
  }
  const [endpoint = ''] = endpoints;
  for await (const _ of etcd.maintenance.snapshot(endpoint));
  expect(messages).toBeGreaterThanOrEqual(3);
  expect(ended).toBe(1);
});

test('an interceptor sees the Authenticate call, and then sees the authenticated call once, with the token', async () => {
  const { endpoints } = await authEtcd();
  const tokens: (string | undefined)[] = [];
  const notes: string[] = [];
  const sees: Interceptor = {
    unary: (call, next) => {
      notes.push(call.method.path);
      tokens.push(call.metadata?.token);
      return next(call);
    },
  };
  const etcd = openClient({ endpoints, auth: USER, interceptors: [sees] });
  await etcd.put('app/k', 'v');
  expect(notes).toEqual(['/etcdserverpb.Auth/Authenticate', '/etcdserverpb.KV/Put']);
  expect(tokens).toEqual([undefined, expect.any(String)]);
});

test.each([
  ['a function', () => {}],
  ['an object that is not in an array', { unary: () => {} }],
  ['an array with an empty object', [{}]],
  ['an array with undefined', [undefined]],
])('the client refuses %s as the `interceptors` option', async (_, interceptors) => {
  expect(await errorOf(() => openClient({ interceptors: interceptors as never }))).toMatchObject({
    reason: 'InvalidInput',
    message: expect.stringContaining('interceptors'),
  });
});

test.each([undefined, 7, {}, 'b\u00e9'])(
  'a call whose metadata an interceptor sets to %s is refused, and other calls go on',
  async (value) => {
    const key = unique();
    const setting: Interceptor = {
      unary: (call, next) =>
        next(
          call.method.path.endsWith('/Put')
            ? { ...call, metadata: { ...call.metadata, 'x-id': value as never } }
            : call,
        ),
    };
    const etcd = openClient({ interceptors: [setting] });
    for (let round = 0; round < 2; round += 1) {
      const [error, found] = await Promise.all([errorOf(etcd.put(key, 'x')), etcd.get(key)]);
      expect(error).toMatchObject({ reason: 'Other', outcome: 'not-sent' });
      expect(found).toBeUndefined();
    }
  },
);
