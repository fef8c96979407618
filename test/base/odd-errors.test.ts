import { Duplex } from 'node:stream';
import { context, propagation } from '@opentelemetry/api';
import { afterEach, describe, expect, test } from 'vitest';
import { gateway } from '../../src/gateway.js';
import { type Client, EtcdError, http2, modifyKey, retryPolicy, typed } from '../../src/index.js';
import { lead, withLock, withLocks } from '../../src/locks.js';
import { openTelemetry } from '../../src/opentelemetry.js';
import { stm, WorkQueue } from '../../src/recipes.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ODD_ERRORS } from '../support/odd-errors.js';

// An unhandled error fails the whole run, so each of these tests also shows that no error is left unhandled.

/** Returns what the action throws, even if it is undefined. Rejects if the action succeeds. */
async function thrownBy(action: () => unknown): Promise<{ readonly thrown: unknown }> {
  try {
    await action();
  } catch (thrown) {
    return { thrown };
  }
  throw new Error('expected an error, but the action succeeded');
}

const clients: Client[] = [];

function throwing(options: Parameters<typeof openClient>[0]): Client {
  const client = openClient(options);
  clients.push(client);
  return client;
}

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

describe.each(Object.entries(ODD_ERRORS))('when user code throws %s,', (_, odd) => {
  const raise = (): never => {
    throw odd();
  };

  test('a worker takes further jobs, and the queue stores a text of the error', async () => {
    const queue = new WorkQueue(openClient(), unique('odd'), { maxAttempts: 1 });
    await queue.enqueue('odd', { id: 'odd', priority: 1 });
    await queue.enqueue('last', { id: 'last', priority: 2 });
    const stop = new AbortController();
    const done: string[] = [];
    await queue.work({ signal: stop.signal }, (job) => {
      if (job.id === 'odd') raise();
      done.push(job.id);
      stop.abort();
    });
    expect(done).toEqual(['last']);
    const [dead] = await queue.dead();
    expect(dead?.id).toBe('odd');
    expect(odd() === undefined ? 'undefined' : typeof dead?.error).toBe(odd() === undefined ? 'undefined' : 'string');
  });

  test('the caller of `withLock`, `withLocks`, `lead`, `stm` and `modifyKey` gets the thrown value', async () => {
    const [etcd, name, value] = [openClient(), unique('odd'), odd()];
    const rethrow = (): never => {
      throw value;
    };
    const runs = [
      () => withLock(etcd, name, rethrow),
      () => withLocks(etcd, [name], rethrow),
      () => lead(etcd, name, { value: 'host' }, rethrow),
      () => stm(etcd, rethrow),
      () => modifyKey(etcd, name, rethrow),
    ];
    for (const run of runs) expect(Object.is((await thrownBy(run)).thrown, value)).toBe(true);
  });

  test('a call fails with outcome `not-sent` if the function is `connect`', async () => {
    const etcd = throwing({ transport: http2({ connect: raise }), timeoutMs: 200 });
    expect((await errorOf(etcd.get('a'))).outcome).toBe('not-sent');
  });

  test('a call fails with an EtcdError if the stream that `connect` returns fails with this value', async () => {
    const duplex = () => new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
    const connect = (): Duplex => {
      const stream = duplex();
      setImmediate(() => stream.emit('error', odd()));
      return stream;
    };
    const etcd = throwing({ transport: http2({ connect }), timeoutMs: 200 });
    expect(await errorOf(etcd.get('a'))).toBeInstanceOf(EtcdError);
  });

  test('a call fails with an EtcdError if the web stream that `connect` returns fails with this value', async () => {
    const connect = () => ({
      readable: new ReadableStream<Uint8Array>({ start: (controller) => controller.error(odd()) }),
      writable: new WritableStream<Uint8Array>(),
    });
    const etcd = throwing({ transport: http2({ connect }), timeoutMs: 200 });
    expect(await errorOf(etcd.get('a'))).toBeInstanceOf(EtcdError);
  });

  test('calls fail with reason AuthFailed if the function is `auth`, and with an EtcdError if the function is `tls`', async () => {
    expect((await errorOf(throwing({ auth: raise }).get('a'))).reason).toBe('AuthFailed');
    const endpoints = ['https://127.0.0.1:1'];
    expect(await errorOf(throwing({ endpoints, tls: raise, timeoutMs: 200 }).get('a'))).toBeInstanceOf(EtcdError);
  });

  test('a logger, a filter and a propagator of OpenTelemetry do not disturb calls', async () => {
    const logger = { debug: raise, info: raise, warn: raise };
    const etcd = throwing({ logger, interceptors: [openTelemetry({ filter: raise })] });
    await etcd.put(unique('odd'), 'x');
    propagation.setGlobalPropagator({ inject: raise, extract: () => context.active(), fields: () => [] });
    await throwing({ interceptors: [openTelemetry()] })
      .get('a')
      .finally(() => propagation.disable());
  });

  test('an interceptor or a retry policy passes the value to the caller, and the client stays usable', async () => {
    let isOdd = true;
    const value = odd();
    const etcd = throwing({
      interceptors: [
        openTelemetry(),
        {
          unary: (call, next) => {
            if (isOdd) throw value;
            return next(call);
          },
        },
      ],
    });
    expect(Object.is((await thrownBy(() => etcd.get('a'))).thrown, value)).toBe(true);
    isOdd = false;
    await etcd.get('a');
    const retryRead = (): never => {
      throw value;
    };
    const retrying = throwing({ endpoints: ['http://127.0.0.1:1'], interceptors: [retryPolicy({ retryRead })] });
    expect(Object.is((await thrownBy(() => retrying.get('a'))).thrown, value)).toBe(true);
  });

  test('a call fails with an EtcdError if the function is `fetch`', async () => {
    const rejecting = throwing({ transport: gateway({ fetch: () => Promise.reject(odd()) }), timeoutMs: 200 });
    expect(await errorOf(rejecting.get('a'))).toBeInstanceOf(EtcdError);
  });

  test('a typed read returns an error that can be printed and written as JSON if the function is a codec', async () => {
    const [etcd, name] = [openClient(), unique('odd')];
    await etcd.put(`${name}/a`, 'x');
    const kv = await typed(etcd, `${name}/`, { encode: () => 'x', decode: raise }).get('a');
    expect(JSON.parse(JSON.stringify(kv?.error))).toMatchObject({ reason: 'InvalidValue' });
    expect(String(kv?.error)).toContain('codec');
  });

  test('a signal that aborts with the value cancels calls and waits', async () => {
    const [etcd, name] = [openClient(), unique('odd')];
    const stop = new AbortController();
    const waits = withLock(etcd, name, async () => {
      const waiting = errorOf(withLock(etcd, name, { signal: stop.signal }, () => 'never'));
      const watch = etcd.watch(name, { signal: stop.signal });
      const next = errorOf(watch[Symbol.asyncIterator]().next());
      await watch.created();
      stop.abort(odd());
      const call = await errorOf(etcd.get('a', { signal: stop.signal }));
      return [(await waiting).reason, call.reason, (await next).reason];
    });
    expect(await waits).toEqual(['Canceled', 'Canceled', 'Canceled']);
  });
});
