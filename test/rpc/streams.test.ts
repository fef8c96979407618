import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { ClientEvents } from '../../src/base/log.js';
import { methods } from '../../src/gen/methods.js';
import { openStream, readStream } from '../../src/rpc/raw-streams.js';
import { Rpc } from '../../src/rpc/rpc.js';
import type { StreamHandler, Transport } from '../../src/wire/transport.js';
import { errorOf } from '../support/errors.js';
import { VirtualClock } from '../support/virtual-clock.js';

/**
 * Returns a transport with one stream, and the stream's handler. `calls` records the client's calls of `cancel`,
 * `pause`, `resume` and `close`.
 */
function scripted(): { rpc: Rpc; transport: Transport; calls: string[]; handler: () => StreamHandler<never> } {
  let known: StreamHandler<never> | undefined;
  const calls: string[] = [];
  const note = (what: string) => (): void => void calls.push(what);
  const stream = {
    send: () => {},
    end: () => {},
    cancel: note('cancel'),
    pause: note('pause'),
    resume: note('resume'),
  };
  const transport: Transport = {
    unary: () => new Promise<never>(() => {}),
    stream: (_call, handler) => {
      known = handler as StreamHandler<never>;
      return stream;
    },
    close: async () => void calls.push('close'),
  };
  const settings = {
    timeoutMs: 1_000,
    renewsTokens: false,
    events: new ClientEvents(),
    closed: new AbortController().signal,
  };
  return { rpc: new Rpc(transport, settings), transport, calls, handler: () => known as StreamHandler<never> };
}

test('`openStream` pauses the stream after 16 unread messages, and resumes the stream when the caller reads', async () => {
  const { rpc, calls, handler } = scripted();
  const stream = openStream(rpc, methods.watch.watch);
  for (let count = 0; count < 15; count += 1) handler().message({} as never);
  expect(calls).toEqual([]);
  handler().message({} as never);
  expect(calls).toEqual(['pause']);
  await stream.next();
  expect(calls).toEqual(['pause', 'resume']);
});

test("the time limit of `readStream` does not include the time between the caller's reads", async () => {
  const { rpc, handler } = scripted();
  const messages = readStream(rpc, methods.maintenance.snapshot, {}, { timeoutMs: 200 });
  const first = messages.next();
  for (let count = 0; count < 3; count += 1) handler().message({} as never);
  await first;
  await pause(400);
  expect((await messages.next()).done).toBe(false);
  await messages.return();
});

test('the time limit of `readStream` for the first message includes all attempts to open the stream', async () => {
  const clock = new VirtualClock();
  onTestFinished(() => clock.restore());
  const { rpc, calls, handler } = scripted();
  const reading = errorOf(readStream(rpc, methods.maintenance.snapshot, {}, { timeoutMs: 100 }).next());
  await clock.pass(60);
  handler().end(new EtcdError('lost', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'not-sent' }));
  // After a backoff of 25 ms, half of at most 50 ms, the client opens the stream again.
  await clock.pass(26);
  expect(calls).toEqual([]);
  await clock.pass(15);
  expect(await reading).toMatchObject({ reason: 'DeadlineExceeded' });
  expect(calls).toEqual(['cancel']);
});
