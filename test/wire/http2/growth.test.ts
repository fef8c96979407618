import { afterEach, describe, expect, test } from 'vitest';
import { UniqueQueue } from '../../../src/base/queues.js';
import { Deadlines, type Expiring } from '../../../src/base/timers.js';
import { SendFlow } from '../../../src/wire/http2/flow-control.js';
import { PeerSettings } from '../../../src/wire/http2/settings.js';
import { SendQueue } from '../../../src/wire/messages.js';
import { growth, MAX_GROWTH } from '../../support/measure.js';
import { VirtualClock } from '../../support/virtual-clock.js';

// The work for many calls, streams or messages must grow linearly with their number, not quadratically.

describe('a queue of waiting streams', () => {
  test('returns its items in the order of arrival, without the deleted items', () => {
    const queue = new UniqueQueue<number>();
    expect(queue.take()).toBe(undefined);
    for (const item of [1, 2, 3, 4]) queue.add(item);
    expect([queue.delete(2), queue.delete(2), queue.take(), queue.take()]).toEqual([true, false, 1, 3]);
    queue.add(5);
    queue.add(4);
    expect([queue.size, queue.take(), queue.take(), queue.take()]).toEqual([2, 4, 5, undefined]);
    queue.add(1);
    expect([queue.take(), queue.size]).toEqual([1, 0]);
  });

  test('keeps the order of its items over random calls of `add`, `delete` and `take`', () => {
    const queue = new UniqueQueue<number>();
    let model: number[] = [];
    let random = 1;
    for (let step = 0; step < 50_000; step += 1) {
      random = (random * 48_271) % 2_147_483_647;
      const item = random % 97;
      if (random % 5 < 2) {
        queue.add(item);
        if (!model.includes(item)) model.push(item);
      } else if (random % 5 < 4) expect(queue.take()).toBe(model.shift());
      else {
        expect(queue.delete(item)).toBe(model.includes(item));
        model = model.filter((each) => each !== item);
      }
    }
  });

  test('is emptied in linear time', () => {
    expect(
      growth(5_000, (count) => {
        const queue = new UniqueQueue<object>();
        for (let index = 0; index < count; index += 1) queue.add({});
        return () => {
          while (queue.take() !== undefined);
        };
      }),
    ).toBeLessThan(MAX_GROWTH);
  });
});

test('the time to send messages that wait for a window grows linearly with the number of messages', () => {
  expect(
    growth(10_000, (count) => {
      const queue = new SendQueue();
      const message = new Uint8Array(8);
      for (let index = 0; index < count; index += 1) queue.push(message);
      return () => {
        while (queue.take(16_384) !== undefined);
      };
    }),
  ).toBeLessThan(MAX_GROWTH);
});

describe('streams that wait for a window', () => {
  const STREAMS = 2_000;

  test('are asked for frames at most three times each on average when their own windows open one by one', () => {
    const { flow, senders, asked } = blocked(STREAMS);
    for (const sender of senders) {
      sender.sendWindowBytes += 10;
      flow.wait(sender);
      flow.pump();
    }
    expect(senders.every(({ left }) => left === 0)).toBe(true);
    expect(asked()).toBeLessThanOrEqual(3 * STREAMS);
  });

  test('are asked for frames at most twice each on average when the connection window opens byte by byte', () => {
    const { flow, senders, asked } = blocked(STREAMS);
    flow.sent({ sendWindowBytes: 65_535, sendFrame: () => false }, 65_535);
    for (const sender of senders) {
      sender.sendWindowBytes += 10;
      flow.wait(sender);
    }
    for (let bytes = 0; bytes < STREAMS; bytes += 1) flow.grow(1);
    expect(senders.map(({ left }) => left)).toEqual(Array(STREAMS).fill(9));
    expect(asked()).toBeLessThanOrEqual(2 * STREAMS);
  });

  test('are not asked for frames while their own windows are closed', () => {
    const { flow, senders, asked } = blocked(STREAMS);
    for (const sender of senders) flow.wait(sender);
    for (let grown = 0; grown < STREAMS; grown += 1) flow.grow(1);
    expect(asked()).toBe(0);
  });

  /** Returns streams that each have 10 bytes to send and a window of 0. `asked` counts the calls of `sendFrame`. */
  function blocked(count: number): { flow: SendFlow; senders: Sender[]; asked: () => number } {
    let asked = 0;
    const flow = new SendFlow(new PeerSettings(), () => {});
    const senders = Array.from({ length: count }, (): Sender => {
      const sender: Sender = {
        sendWindowBytes: 0,
        left: 10,
        sendFrame: (maxBytes) => {
          asked += 1;
          const bytes = Math.min(maxBytes, sender.left);
          if (bytes <= 0) return false;
          sender.left -= bytes;
          flow.sent(sender, bytes);
          return sender.left > 0;
        },
      };
      return sender;
    });
    return { flow, senders, asked: () => asked };
  }

  interface Sender {
    sendWindowBytes: number;
    left: number;
    readonly sendFrame: (maxBytes: number) => boolean;
  }
});

describe('the deadlines of many calls', () => {
  let clock: VirtualClock;
  const CALLS = 2_000;
  /** The maximum number of times, for each call, that `Deadlines` may read a deadline to add and remove the call. */
  const MAX_LOOKS = 100;

  afterEach(() => clock.restore());

  test.for([
    ['in ascending order', (index: number) => index],
    ['in descending order', (index: number) => CALLS - index],
    ['in random order', (index: number) => (index * 7_919) % CALLS],
  ] as const)(
    'expire on time, with few comparisons for each call, when the deadlines are added %s',
    async ([, delayMs]) => {
      clock = new VirtualClock();
      let looks = 0;
      const expired: number[] = [];
      const deadlines = new Deadlines<Expiring>();
      for (let index = 0; index < CALLS; index += 1) {
        const due = clock.now + 10 + delayMs(index);
        deadlines.add({
          slot: -1,
          get deadline() {
            looks += 1;
            return due;
          },
          expire: () => {
            expect(clock.now).toBe(due);
            expired.push(due);
          },
        });
      }
      await clock.pass(2 * CALLS);
      expect(expired.length).toBe(CALLS);
      expect(looks).toBeLessThan(MAX_LOOKS * CALLS);
      expect(deadlines.all()).toEqual([]);
    },
  );

  test('do not expire for calls that have already ended', async () => {
    clock = new VirtualClock();
    const expired: number[] = [];
    const deadlines = new Deadlines<Expiring>();
    const calls = Array.from({ length: CALLS }, (_, index): Expiring => {
      const deadline = clock.now + 10 + ((index * 7_919) % 500);
      return { slot: -1, deadline, expire: () => void expired.push(deadline) };
    });
    for (const call of calls) deadlines.add(call);
    const kept = calls.filter((_, index) => (index * 31) % 7 < 3);
    for (const call of calls) if (!kept.includes(call)) deadlines.delete(call);
    for (const call of calls) if (!kept.includes(call)) deadlines.delete(call);
    await clock.pass(1_000);
    expect(expired).toEqual(kept.map(({ deadline }) => deadline).sort((a, b) => a - b));
  });
});
