import { expect, test } from 'vitest';
import type { Logger } from '../../src/index.js';
import { freePorts } from '../../src/testing/free-ports.js';
import { FaultProxy } from '../../src/testing/index.js';
import { openClient, unique } from '../support/client.js';
import { ownEtcd } from '../support/own-etcd.js';

/** Notes each line with its level. */
function notingLogger(): { readonly logger: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  const note =
    (level: string) =>
    (message: string, details: object): void =>
      void lines.push(`${level}: ${message} ${Object.values(details).join(' ')}`);
  return { logger: { debug: note('debug'), info: note('info'), warn: note('warn') }, lines };
}

test('an endpoint that fails is told of, and the calls that are repeated elsewhere', async () => {
  const { endpoints } = await ownEtcd();
  const [port] = await freePorts(1);
  const nobody = `http://127.0.0.1:${port}`;
  const { logger, lines } = notingLogger();
  await openClient({ endpoints: [nobody, ...endpoints], logger }).put('the-key', 'the-value');
  expect(lines).toEqual([
    `warn: endpoint fails ${nobody} ConnectFailed`,
    'debug: call repeated /etcdserverpb.KV/Put ConnectFailed 0',
  ]);
});

test('watches that go on over a new stream are told of, and an endpoint that works again', async () => {
  const { endpoints } = await ownEtcd();
  const proxy = await FaultProxy.start(endpoints[0] as string);
  try {
    const { logger, lines } = notingLogger();
    const etcd = openClient({ endpoints: [proxy.endpoint], logger });
    const watch = etcd.watch('k');
    await watch.created();
    proxy.dropConnections();
    await expect.poll(() => lines).toContain('info: watches go on over a new stream ConnectionLost 1');
    await openClient({ endpoints }).put('k', 'v');
    expect((await watch[Symbol.asyncIterator]().next()).value).toMatchObject({ type: 'put' });
    expect(lines).toContain(`warn: endpoint fails ${proxy.endpoint} ConnectionLost`);
    expect(lines).toContain(`info: endpoint works again ${proxy.endpoint}`);
    await watch.close();
  } finally {
    await proxy.close();
  }
});

test('a lease that is lost is told of, and one that is given back is not', async () => {
  const { logger, lines } = notingLogger();
  const etcd = openClient({ logger });
  const [lost, kept] = await Promise.all([etcd.lease.grant({ ttl: 60 }), etcd.lease.grant({ ttl: 60 })]);
  const alive = etcd.lease.keepAlive(lost.id);
  await alive.renewed();
  await etcd.lease.keepAlive(kept).close();
  await openClient().lease.revoke(lost.id);
  const gone = new Promise((resolve) => alive.signal.addEventListener('abort', resolve));
  await gone;
  expect(lines).toEqual([`warn: lease lost ${lost.id.toString(16)} LeaseExpired`]);
});

test.each([
  [
    'throws',
    () => {
      throw new Error('disk full');
    },
  ],
  ['rejects', () => Promise.reject(new Error('disk full'))],
])('a logger that %s, or knows no such level, ends nothing', async (_, warn) => {
  const { endpoints } = await ownEtcd();
  const [port] = await freePorts(1);
  const logger: Logger = { warn };
  const etcd = openClient({ endpoints: [`http://127.0.0.1:${port}`, ...endpoints], logger });
  await etcd.put(unique(), 'x');
});
