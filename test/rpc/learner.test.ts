import { expect, test } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import type { WatchBatch } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { ownEtcd } from '../support/own-etcd.js';
import { scriptedServer, scriptedStream } from '../support/scripted-server.js';
import { createdId, header, put } from '../support/scripted-watch.js';

test('watches and locks keep working when one endpoint is a learner, and a watch fails when every endpoint is a learner (S30)', async (context) => {
  const { cluster, endpoints } = await ownEtcd();
  if (cluster === undefined) return context.skip('the test cannot add members to these servers');
  const learner = await cluster.join({ learner: true });
  const member = await faultProxy(endpoints[0] as string);
  const etcd = openClient({ endpoints: [learner.endpoint, member.endpoint] });
  await openClient({ endpoints: [learner.endpoint, member.endpoint] }).put('first', 'at the learner');
  const watch = etcd.watch('k');
  await watch.created();
  const session = await Session.open(etcd);
  const held = await new Mutex(session, 'lock').lock();
  const waiting = new Mutex(await Session.open(etcd), 'lock').lock();
  // The client loses its connection to the voting member, and tries the learner next.
  member.dropConnections();
  const batch = watch.batches().next();
  await openClient({ endpoints }).put('k', 'v');
  expect(((await batch).value as WatchBatch).events).toHaveLength(1);
  expect(held.valid()).toBe(true);
  await held.release();
  expect((await waiting).valid()).toBe(true);

  const alone = openClient({ endpoints: [learner.endpoint] });
  expect(await errorOf(alone.watch('k').created())).toMatchObject({ reason: 'NotSupportedForLearner' });
});

test('a watch continues at another member when a learner refuses its stream', async () => {
  let refused = 0;
  const learner = await scriptedServer(
    scriptedStream(methods.watch.watch, async (stream) => {
      refused += 1;
      stream.fail(14, 'etcdserver: rpc not supported for learner');
    }),
  );
  const member = await scriptedServer(
    scriptedStream(methods.watch.watch, async (stream) => {
      const watchId = await createdId(stream);
      stream.send({ ...header(10n), watchId, created: true });
      stream.send({ ...header(11n), watchId, events: [put('k', 11n)] });
    }),
  );
  const etcd = openClient({ endpoints: [learner, member], balance: 'in-order' });
  expect((await etcd.watch('k').batches().next()).value).toMatchObject({ revision: 11n });
  expect(refused).toBe(1);
});
