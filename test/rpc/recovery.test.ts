import { expect, onTestFinished, test } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { Client } from '../../src/index.js';
import type { Transport } from '../../src/wire/transport.js';
import { VirtualClock } from '../support/virtual-clock.js';

const refused = (): EtcdError =>
  new EtcdError('refused', { code: 'Unavailable', reason: 'ConnectFailed', outcome: 'not-sent' });
const unsupported = (): EtcdError =>
  new EtcdError('no streams', { code: 'Unavailable', reason: 'StreamRefused', outcome: 'rejected' });

/** Opens a client whose only server is down, and whose watch waits for its next stream. */
async function waitingWatch(streamError: () => EtcdError) {
  const clock = new VirtualClock();
  onTestFinished(() => clock.restore());
  clock.randomNumber = 0.9;
  const server = { isDown: true, streams: 0 };
  const transport: Transport = {
    unary: async () => {
      if (server.isDown) throw refused();
      return { kvs: [], count: 0n } as never;
    },
    stream: (_call, handler) => {
      server.streams += 1;
      void Promise.resolve().then(() => handler.end(streamError()));
      return { send: () => {}, end: () => {}, cancel: () => {}, pause: () => {}, resume: () => {} } as never;
    },
    close: async () => {},
  };
  const etcd = new Client({ endpoints: ['http://a:1'], transport: () => transport });
  onTestFinished(() => etcd.close());
  const watch = etcd.watch('k');
  onTestFinished(() => watch.close());
  // After so many failures, the backoff is longer than a second.
  while (server.streams < 8) await clock.pass(100);
  server.isDown = false;
  return { clock, etcd, server };
}

test('a watch that waits because the client could not connect opens its stream when a call succeeds', async () => {
  const { clock, etcd, server } = await waitingWatch(refused);
  await etcd.get('other');
  await clock.pass(0);
  expect(server.streams).toBe(9);
});

test('a watch that waits because the server refuses its stream does not open the stream when a call succeeds', async () => {
  const { clock, etcd, server } = await waitingWatch(unsupported);
  await etcd.get('other');
  await clock.pass(0);
  expect(server.streams).toBe(8);
});
