import { describe, expect, test } from 'vitest';
import { at, callTimedOut, monotonicMs } from '../../../src/base/index.js';
import { methods } from '../../../src/gen/methods.js';
import { Client, type Lease, op, prefix } from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import { AuthenticatedTransport } from '../../../src/rpc/authentication.js';
import type { Transport, UnaryCall } from '../../../src/wire/index.js';
import { authEtcd, ROOT, USER } from '../../support/auth-etcd.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { recordingTransport } from '../../support/recording-transport.js';
import { scriptedServer, scriptedStream, scriptedUnary } from '../../support/scripted-server.js';
import { VirtualClock } from '../../support/virtual-clock.js';
import { valueText } from '../../support/watch-events.js';

const AUTHENTICATE = methods.auth.authenticate.path;
const UNAUTHENTICATED = 16;
const INVALID_TOKEN = { code: UNAUTHENTICATED, details: 'etcdserver: invalid auth token' };

describe('tokens that expire after a second (S12, S29)', () => {
  test('are renewed once for all concurrent puts, and the server applies each put once', async () => {
    const { endpoints } = await authEtcd('--auth-token-ttl=1');
    const { transport, sent } = recordingTransport();
    const etcd = openClient({ endpoints, auth: USER, transport });
    await etcd.put('app/before', 'x');
    let renewals = 0;
    for (let round = 0; round < 3; round += 1) {
      await idle(3_000);
      sent.length = 0;
      const keys = Array.from({ length: 60 }, (_, index) => `app/${round}/${index}`);
      await Promise.all(keys.map((key) => etcd.put(key, 'x')));
      renewals += sent.filter(({ path }) => path === AUTHENTICATE).length;
      expect(sent.filter(({ path }) => path === AUTHENTICATE).length).toBeLessThanOrEqual(1);
    }
    expect(renewals).toBeGreaterThan(0);
    const { kvs } = await etcd.range(prefix('app/'));
    expect(kvs).toHaveLength(181);
    expect(kvs.every(({ version }) => version === 1n)).toBe(true);
  });

  test('do not end a watch, a keepalive or a waiting `lock()` call, and do not prevent new watches', async () => {
    const { endpoints } = await authEtcd('--auth-token-ttl=1');
    const [etcd, other] = [openClient({ endpoints, auth: USER }), openClient({ endpoints, auth: USER })];
    const watch = etcd.watch(prefix('app/watched/'));
    await watch.created();
    const [holder, waiter] = [await Session.open(etcd, { ttl: 2 }), await Session.open(other, { ttl: 2 })];
    const held = await new Mutex(holder, 'app/lock').lock();
    const next = new Mutex(waiter, 'app/lock').lock();
    const seen: string[] = [];
    const reading = (async () => {
      for await (const event of watch) if (seen.push(event.key) === 5) return;
    })();
    for (let round = 0; round < 5; round += 1) {
      await idle(2_200);
      const late = etcd.watch(prefix('app/watched/'));
      await late.created();
      await other.put(`app/watched/${round}`, 'x');
      for await (const event of late) {
        expect(event.key).toBe(`app/watched/${round}`);
        break;
      }
    }
    await reading;
    expect(seen).toEqual([0, 1, 2, 3, 4].map((round) => `app/watched/${round}`));
    expect(held.valid()).toBe(true);
    await held.release();
    expect((await next).token).toBeGreaterThan(held.token);
  });
});

describe('a client with credentials (S29)', () => {
  test('rejects a put and a watch with reason AuthFailed after one Authenticate call each when the password is wrong', async () => {
    const { endpoints } = await authEtcd();
    const { transport, sent } = recordingTransport();
    const etcd = openClient({ endpoints, auth: { ...USER, password: 'wrong' }, transport });
    const error = await errorOf(etcd.put('app/k', 'x'));
    expect(error).toMatchObject({ reason: 'AuthFailed', outcome: 'not-sent', method: methods.kv.put.path });
    expect(String(error)).not.toContain('wrong');
    expect(await errorOf(etcd.watch('app/k').created())).toMatchObject({ reason: 'AuthFailed' });
    expect(sent.filter(({ path }) => path === AUTHENTICATE)).toHaveLength(2);
    const kept = etcd.lease.keepAlive(5n);
    await expect.poll(() => kept.signal.aborted).toBe(true);
    expect(kept.signal.reason).toMatchObject({ reason: 'AuthFailed' });
  });

  test('can make calls before and after authentication is enabled', async () => {
    const { endpoints, root } = await authEtcd();
    await root.auth.disable();
    const etcd = openClient({ endpoints, auth: USER });
    await etcd.put('elsewhere', 'x');
    const admin = openClient({ endpoints });
    await admin.auth.enable();
    await etcd.put('app/k', 'x');
    expect(await errorOf(etcd.put('elsewhere', 'y'))).toMatchObject({
      reason: 'PermissionDenied',
      outcome: 'rejected',
    });
  });

  test('authenticates with the password when `token` is undefined', async () => {
    const { endpoints } = await authEtcd();
    const etcd = openClient({ endpoints, auth: { ...USER, token: undefined } as never });
    await etcd.put('app/k', 'x');
  });

  test('can still make calls after a change to a role has invalidated all tokens', async () => {
    const { endpoints, root } = await authEtcd();
    const etcd = openClient({ endpoints, auth: USER });
    await etcd.put('app/k', 'x');
    await root.auth.roleGrantPermission('app', 'read', 'more');
    await Promise.all(Array.from({ length: 20 }, () => etcd.get('app/k')));
    expect(await etcd.get('more')).toBeUndefined();
  });

  test('never makes an Authenticate call when the caller configured a token', async () => {
    const { endpoints, root } = await authEtcd();
    const { username, password } = USER;
    const token = await root.auth.authenticate(username, password);
    const { transport, sent } = recordingTransport();
    const etcd = openClient({ endpoints, auth: { token, allowPlaintext: true }, transport });
    await etcd.put('app/k', 'x');
    const stale = openClient({ endpoints, auth: { token: `${token}x`, allowPlaintext: true }, transport });
    expect(await errorOf(stale.get('app/k'))).toMatchObject({ reason: 'InvalidAuthToken', outcome: 'rejected' });
    expect(await errorOf(stale.watch('app/k').created())).toMatchObject({ code: expect.stringMatching(/Unauth|Perm/) });
    expect(sent.filter(({ path }) => path === AUTHENTICATE)).toEqual([]);
  });

  test('cannot be constructed for an endpoint without TLS unless `allowPlaintext` is set, and no error contains the credentials', () => {
    const auth = { username: 'u', password: 'sesame' };
    const endpoints = ['http://127.0.0.1:1'];
    expect(() => new Client({ endpoints, auth })).toThrow(/http:\/\/127.0.0.1:1.*allowPlaintext/);
    expect(() => new Client({ endpoints, auth })).not.toThrow(/sesame/);
    for (const bad of [{ username: 'u' }, { username: '', password: 'x' }, { token: 5 }, { ...auth, token: 'x' }]) {
      expect(() => new Client({ endpoints, auth: { ...bad, allowPlaintext: true } as never })).toThrow(/auth/);
    }
    expect(() => new Client({ endpoints: ['https://h:1', 'unix:///s'], auth })).not.toThrow();
    const read = { token: 'sesame\n', allowPlaintext: true };
    expect(() => new Client({ endpoints, auth: read })).toThrow(/auth.token: got a token with spaces, line breaks or/);
    for (const text of ['root:sesame@h:1', 'http://root:se#same@h', 'etcd://root:sesame@h']) {
      expect(() => new Client({ endpoints: [text] })).toThrow(/user name or password/);
      expect(() => new Client({ endpoints: [text] })).not.toThrow(/se#?same/);
    }
  });
});

describe('a server that refuses every token (S29)', () => {
  test('receives only four attempts of a put before the put fails', async () => {
    let [authenticated, puts] = [0, 0];
    const endpoint = await scriptedServer(
      scriptedUnary(methods.auth.authenticate, () => ({ token: `t${++authenticated}` })),
      scriptedUnary(methods.kv.put, () => {
        puts += 1;
        throw INVALID_TOKEN;
      }),
    );
    const etcd = openClient({ endpoints: [endpoint], auth: ROOT });
    expect(await errorOf(etcd.put(unique(), 'x'))).toMatchObject({ reason: 'InvalidAuthToken', outcome: 'rejected' });
    expect([puts, authenticated]).toEqual([4, 4]);
  });

  test('receives only four streams for a watch before the watch fails', async () => {
    let [authenticated, streams] = [0, 0];
    const endpoint = await scriptedServer(
      scriptedUnary(methods.auth.authenticate, () => ({ token: `t${++authenticated}` })),
      scriptedStream(methods.watch.watch, async (stream) => {
        streams += 1;
        stream.fail(INVALID_TOKEN.code, INVALID_TOKEN.details);
      }),
    );
    const etcd = openClient({ endpoints: [endpoint], auth: ROOT });
    expect(await errorOf(etcd.watch(unique()).created())).toMatchObject({ reason: 'InvalidAuthToken' });
    expect([streams, authenticated]).toEqual([4, 4]);
  });
});

describe('a watch that an older server refuses with "permission denied" because the token has expired (S12, S29)', () => {
  const refusal = {
    watchId: -1n,
    created: true,
    canceled: true,
    cancelReason: 'rpc error: code = PermissionDenied desc = etcdserver: permission denied',
  };

  /** Answers a range request. Refuses the first token as expired, and accepts any later token. */
  const range = scriptedUnary(methods.kv.range, (_, { token }) => {
    if (token === 't1') throw INVALID_TOKEN;
    return { header: { revision: 7n } };
  });

  test('is created on a new stream with a new token', async () => {
    let authenticated = 0;
    const tokens: unknown[] = [];
    const endpoint = await scriptedServer(
      scriptedUnary(methods.auth.authenticate, () => ({ token: `t${++authenticated}` })),
      range,
      scriptedStream(methods.watch.watch, async (stream) => {
        tokens.push(stream.metadata.token);
        const { requestUnion } = await stream.receive();
        if (requestUnion?.case !== 'createRequest') return;
        const { watchId } = requestUnion.value;
        if (tokens.length === 1) stream.send(refusal);
        else stream.send({ watchId, created: true, header: { revision: 7n } });
      }),
    );
    expect(
      await openClient({ endpoints: [endpoint], auth: ROOT })
        .watch('k')
        .created(),
    ).toBe(7n);
    expect(tokens).toEqual(['t1', 't2']);
  });

  test('ends with reason PermissionDenied when the server also refuses the watch on the second stream', async () => {
    let streams = 0;
    const endpoint = await scriptedServer(
      scriptedUnary(methods.auth.authenticate, () => ({ token: 't' })),
      range,
      scriptedStream(methods.watch.watch, async (stream) => {
        streams += 1;
        await stream.receive();
        stream.send(refusal);
      }),
    );
    const watch = openClient({ endpoints: [endpoint], auth: ROOT }).watch('k');
    expect(await errorOf(watch.created())).toMatchObject({ reason: 'PermissionDenied' });
    expect(streams).toBe(2);
  });
});

describe('an authenticated client', () => {
  test('keeps its existing watches and fetches no new token when the server denies the creation of other watches', async () => {
    const { endpoints } = await authEtcd();
    const { transport, sent } = recordingTransport();
    const etcd = openClient({ endpoints, auth: USER, transport });
    const watch = etcd.watch('app/k');
    await watch.created();
    sent.length = 0;
    const denied = Array.from({ length: 10 }, (_, index) => errorOf(etcd.watch(`elsewhere/${index}`).created()));
    for (const error of await Promise.all(denied)) expect(error).toMatchObject({ reason: 'PermissionDenied' });
    await etcd.put('app/k', 'x');
    for await (const event of watch) {
      expect(valueText(event)).toBe('x');
      break;
    }
    expect(sent.filter(({ path }) => path === AUTHENTICATE)).toEqual([]);
    // The client has not created the existing watch again.
    expect(sent.filter(({ path }) => path === methods.watch.watch.path).map(kindOf)).not.toContain('app/k');
  });

  test('ends only the keepalive of the lease with forbidden keys when the server denies a renewal (etcd 3.5 and later)', async (context) => {
    const { endpoints, root, version } = await authEtcd();
    if (version?.startsWith('3.4.')) return context.skip('etcd 3.4 permits every renewal');
    const etcd = openClient({ endpoints, auth: USER });
    const session = await Session.open(etcd, { ttl: 2 });
    const held = await new Mutex(session, 'app/lock').lock();
    const others = await Promise.all(Array.from({ length: 3 }, () => Session.open(etcd, { ttl: 2 })));
    const { id } = await root.lease.grant({ ttl: 60 });
    await root.put('elsewhere', 'x', { lease: id });
    // The client renews all leases over one stream, so the server's refusal does not say which lease it concerns.
    const numbers = await Promise.all(Array.from({ length: 3 }, () => etcd.lease.grant({ ttl: 60 })));
    const before = numbers.slice(0, 2).map((lease) => etcd.lease.keepAlive(lease.id));
    const forbidden = etcd.lease.keepAlive(id);
    const kept = [...before, etcd.lease.keepAlive((numbers[2] as Lease).id)];
    await expect.poll(() => forbidden.signal.aborted).toBe(true);
    expect(forbidden.signal.reason).toMatchObject({ reason: 'PermissionDenied' });
    await Promise.all(kept.map((keepAlive) => keepAlive.renewed()));
    await idle(3_000);
    expect([held.valid(), ...others.map((other) => other.valid())]).toEqual([true, true, true, true]);
  });

  test('continues a scan with a new token when a change to a role invalidates the old token during the scan', async () => {
    const { endpoints, root } = await authEtcd();
    const etcd = openClient({ endpoints, auth: USER });
    // Write more data than etcd 3.7 sends on a stream before the client reads.
    const names = Array.from({ length: 4_000 }, (_, index) => `app/${String(index).padStart(4, '0')}`);
    for (let at = 0; at < names.length; at += 100) {
      const puts = names.slice(at, at + 100).map((name) => op.put(name, 'x'.repeat(10_000)));
      await etcd.txn({ then: puts });
    }
    const seen: string[] = [];
    for await (const kv of etcd.scan(prefix('app/'))) {
      if (seen.push(kv.key) === 100) await root.auth.roleGrantPermission('app', 'read', 'more');
    }
    expect(seen).toEqual(names);
  });
});

describe('the client of a user without a password', () => {
  test('rejects a watch and a keepalive with reason AuthFailed after one Authenticate call each', async () => {
    const { endpoints, root } = await authEtcd();
    await root.auth.userAdd('certified', { noPassword: true });
    const auth = { username: 'certified', password: 'x', allowPlaintext: true };
    const { transport, sent } = recordingTransport();
    const etcd = openClient({ endpoints, auth, transport });
    expect(await errorOf(etcd.watch('app/k').created())).toMatchObject({ reason: 'AuthFailed' });
    expect(await errorOf(etcd.lease.keepAlive(5n).renewed())).toMatchObject({ reason: 'AuthFailed' });
    expect(sent.filter(({ path }) => path === AUTHENTICATE)).toHaveLength(2);
  });
});

test('an Authenticate call is not limited by the `timeoutMs` of the client', async () => {
  const { endpoints } = await authEtcd();
  const etcd = openClient({ endpoints, auth: USER, timeoutMs: 10 });
  await etcd.put('app/k', 'x', { timeoutMs: 10_000 });
});

/** Waits for this many milliseconds, so that tokens expire. A test has no other way to make a token expire. */
function idle(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Returns the key if the request creates a watch, or the kind of any other request on a watch stream. */
function kindOf({ request }: { readonly request: unknown }): string {
  const { requestUnion } = request as { requestUnion: { case: string; value: { key?: Uint8Array } } };
  return requestUnion.value.key === undefined ? requestUnion.case : new TextDecoder().decode(requestUnion.value.key);
}

test('a call that shares the Authenticate call of an earlier call has its own time limit', async () => {
  const clock = new VirtualClock();
  try {
    const asked: UnaryCall<unknown, unknown>[] = [];
    const inner: Transport = {
      unary: ((call: UnaryCall<unknown, unknown>) => {
        if (call.method.path !== AUTHENTICATE) return Promise.resolve(call.metadata?.token);
        asked.push(call);
        if (asked.length > 1) return Promise.resolve({ token: 'late' });
        return new Promise((_, reject) => {
          at(call.deadline, () => reject(callTimedOut(call, 'unknown')));
        });
      }) as Transport['unary'],
      stream: () => {
        throw new Error('no stream is expected');
      },
      close: async () => {},
    };
    const transport = new AuthenticatedTransport(inner, { username: 'a', password: 'b' });
    const put = (limitMs: number): Promise<unknown> =>
      transport.unary({
        method: methods.kv.put,
        request: {},
        timeoutMs: limitMs,
        deadline: monotonicMs() + limitMs,
      });
    const first = errorOf(put(15_000));
    await clock.pass(14_000);
    const second = put(15_000);
    await clock.pass(2_000);
    expect(await first).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent' });
    expect([await second, asked.length]).toEqual(['late', 2]);
  } finally {
    clock.restore();
  }
});
