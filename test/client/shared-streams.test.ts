import { expect, test } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import { type ClientEvent, type Interceptor, type Keyspace, prefix } from '../../src/index.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';

/** The number of streams that the servers of these tests allow on a connection. */
const LIMIT = 3;

test('a client and its namespaces share one stream for watches and one for keepalives', async () => {
  const { opened, recorder } = streamRecorder();
  const etcd = openClient({ interceptors: [recorder] });
  for (const keyspace of namespacesOf(etcd)) await use(keyspace);
  expect(opened.sort()).toEqual([methods.lease.leaseKeepAlive.path, methods.watch.watch.path]);
});

test('calls continue beside the watches and keepalives of many namespaces when the server allows three streams', async () => {
  const etcd = openClient({ endpoints: await withFewStreams() });
  for (const keyspace of namespacesOf(etcd)) await use(keyspace);
  for (const keyspace of namespacesOf(etcd)) await keyspace.put('k', 'x');
});

test('a watch that is far behind leaves room for calls when the server allows three streams', async () => {
  const { opened, recorder } = streamRecorder();
  const etcd = openClient({ endpoints: await withFewStreams(), interceptors: [recorder] });
  const { header } = await etcd.put('k/0', '');
  for (let puts = 1; puts < 100; puts += 1) await etcd.put(`k/${puts}`, '');
  await use(etcd);
  const watch = etcd.watch(prefix('k/'), { startRevision: header.revision });
  let seen = 0;
  for await (const event of watch) {
    expect(await etcd.get(event.key)).toBeDefined();
    if (++seen === 100) break;
  }
  expect(opened.sort()).toEqual([methods.lease.leaseKeepAlive.path, methods.watch.watch.path]);
});

test('a call that finds all streams in use times out with the limit and the streams in its error and in an event', async () => {
  const etcd = openClient({ endpoints: await withFewStreams() });
  const events: ClientEvent[] = [];
  etcd.onEvent((event) => void events.push(event));
  await use(etcd);
  const raw = etcd.raw.watch.watch();
  raw.send({ requestUnion: { case: 'createRequest', value: { key: new Uint8Array([97]) } } });
  await raw.next();
  const error = await errorOf(etcd.put('k', 'x', { timeoutMs: 300 }));
  const uses = '2 of /etcdserverpb.Watch/Watch, 1 of /etcdserverpb.Lease/LeaseKeepAlive';
  expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent' });
  expect(error.message).toContain('the server allows 3 streams on a connection');
  expect(error.message).toContain(uses);
  const [event] = events.filter(({ type }) => type === 'streams used up');
  expect(event).toMatchObject({ endpoint: etcd.endpoints[0], problem: expect.stringContaining(uses) });
  raw.cancel();
  await etcd.put('k', 'x');
});

/** Returns an interceptor, and the paths of the streams that it has seen. */
function streamRecorder(): { readonly opened: string[]; readonly recorder: Interceptor } {
  const opened: string[] = [];
  const recorder: Interceptor = {
    stream: (call, handler, next) => {
      opened.push(call.method.path);
      return next(call, handler);
    },
  };
  return { opened, recorder };
}

async function withFewStreams(): Promise<readonly string[]> {
  const { endpoints } = await ownEtcd({ args: [`--max-concurrent-streams=${LIMIT}`] });
  return endpoints;
}

function namespacesOf(etcd: Keyspace): readonly Keyspace[] {
  return ['a/', 'b/', 'c/', 'd/'].map((folder) => etcd.namespace(folder));
}

/** Opens a watch and a keepalive, which both stay open until the client closes. */
async function use(keyspace: Keyspace): Promise<void> {
  await keyspace.watch('k').created();
  const alive = keyspace.lease.keepAlive((await keyspace.lease.grant({ ttl: 60 })).id);
  await expect.poll(() => alive.valid()).toBe(true);
}
