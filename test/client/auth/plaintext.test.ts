import { expect, test } from 'vitest';
import { type Client, type ClientOptions, type Credentials, EtcdError } from '../../../src/index.js';
import type { TransportFactory } from '../../../src/wire/transport.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

// No password and no token may reach an endpoint without TLS unless the caller allows it. The transport of these tests
// answers every call, and records what each endpoint receives.

const [HTTP, HTTPS] = ['http://127.0.0.1:2379', 'https://127.0.0.1:2379'] as const;
const SECRET = 'the-secret';
const LOGIN = { username: 'user', password: SECRET } as const;

interface Recorder {
  readonly transport: TransportFactory;
  /** The endpoint, the RPC, and the metadata and the request as JSON, of each call and stream in order. */
  readonly received: { readonly endpoint: string; readonly rpc: string; readonly content: string }[];
}

function recorder(): Recorder {
  const received: Recorder['received'] = [];
  const record = (endpoint: string, path: string, ...content: readonly unknown[]): void => {
    const text = JSON.stringify(content, (_, value) => (typeof value === 'bigint' ? String(value) : value));
    received.push({ endpoint, rpc: path.slice(path.lastIndexOf('/') + 1), content: text });
  };
  const transport: TransportFactory = ({ url }) => ({
    unary: async ({ method, metadata, request }) => {
      record(url, method.path, metadata, request);
      const members = [{ clientUrls: [HTTP, HTTPS], isLearner: false }];
      return { token: `token-of-${SECRET}`, kvs: [], members } as never;
    },
    stream: ({ method, metadata }, handler) => {
      void Promise.resolve(metadata).then(
        (given) => record(url, method.path, given),
        (error: EtcdError) => handler.end(error),
      );
      const nothing = (): void => {};
      return { send: nothing, end: nothing, cancel: nothing, pause: nothing, resume: nothing };
    },
    close: async () => {},
  });
  return { transport, received };
}

/** Fails if an endpoint without TLS has received the password or the token. */
function expectNoLeak({ received }: Recorder): void {
  expect(received.filter(({ endpoint, content }) => endpoint === HTTP && content.includes(SECRET))).toEqual([]);
}

/** An `auth` function whose result the test gives. */
function askedLater(): {
  readonly auth: () => Promise<Credentials>;
  readonly answers: ((given: Credentials) => void)[];
} {
  const answers: ((given: Credentials) => void)[] = [];
  return { auth: () => new Promise((resolve) => void answers.push(resolve)), answers };
}

async function microtasks(count: number): Promise<void> {
  for (let left = count; left > 0; left -= 1) await undefined;
}

/** Gives the client time for everything that it does without waiting for the network. */
const settled = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

test('a client sends no password to an endpoint without TLS that `setEndpoints` adds while the `auth` function runs', async () => {
  const recorded = recorder();
  const { auth, answers } = askedLater();
  const etcd = openClient({ endpoints: [HTTPS], auth, transport: recorded.transport });
  const call = errorOf(etcd.get('k'));
  await settled();
  etcd.setEndpoints([HTTP]);
  answers[0]?.(LOGIN);
  expect(await call).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  expect(recorded.received).toEqual([]);
});

test.each([
  ['a password', LOGIN],
  ['a token', { token: SECRET }],
])('a client never sends %s to an endpoint without TLS, whenever `setEndpoints` runs', async (_, given) => {
  for (let before = 0; before < 30; before += 1) {
    const recorded = recorder();
    const { auth, answers } = askedLater();
    const etcd = openClient({ endpoints: [HTTPS], auth, transport: recorded.transport });
    const watch = etcd.watch('k');
    const calls = [etcd.get('k'), watch.created()].map((call) => call.catch(() => {}));
    await settled();
    answers[0]?.(given);
    await microtasks(before);
    try {
      etcd.setEndpoints([HTTP]);
    } catch (error) {
      expect(error).toMatchObject({ reason: 'InvalidInput' });
    }
    await settled();
    expectNoLeak(recorded);
    await etcd.close();
    await Promise.all(calls);
  }
});

test('a client sends no password to an endpoint without TLS that earlier credentials allowed', async () => {
  const recorded = recorder();
  const { auth, answers } = askedLater();
  let refused = 0;
  const refusing: ClientOptions['interceptors'] = [
    {
      unary: async (call, next) => {
        const answer = await next(call);
        if (call.method.path !== '/etcdserverpb.KV/Range' || refused > 0) return answer;
        refused += 1;
        throw new EtcdError('expired', { code: 'Unauthenticated', reason: 'InvalidAuthToken', outcome: 'rejected' });
      },
    },
  ];
  const etcd = openClient({ endpoints: [HTTPS], auth, transport: recorded.transport, interceptors: refusing });
  const call = errorOf(etcd.get('k'));
  await settled();
  answers[0]?.({ ...LOGIN, allowPlaintext: true });
  await expect.poll(() => answers.length).toBe(2);
  etcd.setEndpoints([HTTP]);
  answers[1]?.(LOGIN);
  expect(await call).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  expectNoLeak(recorded);
});

test('a watch sends its token to the new endpoints, not to one without TLS that `setEndpoints` has removed meanwhile', async () => {
  const recorded = recorder();
  const { auth, answers } = askedLater();
  const etcd = openClient({ endpoints: [HTTP], auth, transport: recorded.transport });
  const watch = etcd.watch('k');
  watch.created().catch(() => {});
  await settled();
  etcd.setEndpoints([HTTPS]);
  answers[0]?.({ token: SECRET });
  await expect.poll(() => recorded.received.some(({ rpc }) => rpc === 'Watch'), { timeout: 5_000 }).toBe(true);
  expect(recorded.received.find(({ rpc }) => rpc === 'Watch')).toMatchObject({ endpoint: HTTPS });
  expectNoLeak(recorded);
});

test('`sync` keeps the endpoints of a `setEndpoints` that `allowEndpoint` calls', async () => {
  const { transport } = recorder();
  const etcd: Client = openClient({
    endpoints: [HTTP],
    transport,
    allowEndpoint: () => {
      etcd.setEndpoints([HTTPS]);
      return true;
    },
  });
  expect(await etcd.sync()).toEqual([HTTPS]);
  expect(etcd.endpoints).toEqual([HTTPS]);
});

const PASSWORD_CALLS: Readonly<Record<string, (etcd: Client) => Promise<unknown>>> = {
  'auth.authenticate': ({ auth }) => auth.authenticate('user', SECRET),
  'auth.userAdd': ({ auth }) => auth.userAdd('user', { password: SECRET }),
  'auth.userChangePassword': ({ auth }) => auth.userChangePassword('user', SECRET),
  'raw.auth.authenticate': ({ raw }) => raw.auth.authenticate({ name: 'user', password: SECRET }),
  'raw.auth.userAdd': ({ raw }) => raw.auth.userAdd({ name: 'user', password: SECRET }),
  'raw.auth.userAdd with a hash': ({ raw }) => raw.auth.userAdd({ name: 'user', hashedPassword: SECRET }),
  'raw.auth.userChangePassword': ({ raw }) => raw.auth.userChangePassword({ name: 'user', password: SECRET }),
  'raw.auth.userChangePassword with a hash': ({ raw }) =>
    raw.auth.userChangePassword({ name: 'user', hashedPassword: SECRET }),
};

test.each(Object.entries(PASSWORD_CALLS))(
  '`%s` sends a password to an endpoint without TLS only with `allowPlaintext`',
  async (name, call) => {
    const recorded = recorder();
    const refused = await errorOf(
      call(openClient({ endpoints: [HTTP], auth: undefined, transport: recorded.transport })),
    );
    expect(refused).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    expect(refused.message).toContain(HTTP);
    expect(refused.message).toContain('allowPlaintext: true');
    expect(refused.message).not.toContain(SECRET);
    expect(recorded.received, name).toEqual([]);
    for (const options of [
      { endpoints: [HTTP], auth: { allowPlaintext: true } },
      { endpoints: [HTTPS], auth: undefined },
      { endpoints: ['unix:///etcd.sock'], auth: undefined },
    ] as const) {
      const allowed = recorder();
      await call(openClient({ ...options, transport: allowed.transport }));
      expect(allowed.received).toHaveLength(1);
      expect(allowed.received[0]?.content).toContain(SECRET);
    }
  },
);

test('`auth.userAdd` with `noPassword` needs no `allowPlaintext`', async () => {
  const { transport, received } = recorder();
  const etcd = openClient({ endpoints: [HTTP], auth: undefined, transport });
  await etcd.auth.userAdd('user', { noPassword: true });
  await etcd.raw.auth.userAdd({ name: 'user', options: { noPassword: true } });
  expect(received).toHaveLength(2);
});

test('`auth.authenticate` calls the `auth` function first to learn whether it allows plaintext', async () => {
  for (const allowPlaintext of [true, false]) {
    const { transport, received } = recorder();
    const etcd = openClient({ endpoints: [HTTP], transport, auth: async () => ({ ...LOGIN, allowPlaintext }) });
    const call = etcd.auth.authenticate('other', SECRET);
    if (allowPlaintext) expect(await call).toContain('token');
    else expect(await errorOf(call)).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    expect(received.map(({ rpc }) => rpc)).toEqual(allowPlaintext ? ['Authenticate'] : []);
  }
});

test('`auth: { allowPlaintext: true }` is no login, and a login without a name stays an error', async () => {
  const { transport, received } = recorder();
  const etcd = openClient({ endpoints: [HTTP], auth: { allowPlaintext: true }, transport });
  await etcd.get('k');
  expect(received.map(({ rpc }) => rpc)).toEqual(['Range']);
  const incomplete = { username: undefined, password: undefined, allowPlaintext: true } as never;
  for (const auth of [incomplete, {} as never, { allowPlaintext: false } as never])
    expect(await errorOf(() => openClient({ endpoints: [HTTP], auth, transport }))).toMatchObject({
      reason: 'InvalidInput',
    });
});
