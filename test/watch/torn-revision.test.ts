import { expect, test } from 'vitest';
import { Rpc, type RpcSettings } from '../../src/channel/rpc.js';
import { prefix } from '../../src/kv/keys.js';
import type { Transport } from '../../src/transport/transport.js';
import { Watch } from '../../src/watch/watch.js';
import { WatchStream } from '../../src/watch/watch-stream.js';
import { SimulatedStore, SimulatedWatchStream } from '../support/simulated-watches.js';
import { VirtualClock } from '../support/virtual-clock.js';

test('a revision that is cut between two pieces arrives once and whole, although a part is added meanwhile (S5)', async () => {
  const clock = new VirtualClock();
  const store = new SimulatedStore();
  const streams: SimulatedWatchStream[] = [];
  const transport: Transport = {
    unary: () => new Promise<never>(() => {}),
    stream: (_call, handler) => {
      const stream = new SimulatedWatchStream(store, handler as never, () => true);
      streams.push(stream);
      return stream as never;
    },
    close: async () => {},
  };
  const settings: RpcSettings = { timeoutMs: 1_000, renewsTokens: false, closed: new AbortController().signal };
  const shared = new WatchStream(new Rpc(transport, settings));
  for (let put = 0; put < 2_500; put += 1) store.put(['a']); // revisions 2 to 2501
  for (let put = 0; put < 3_000; put += 1) store.put(['z']);
  store.put(['a1', 'a2']); // revision 5502
  const watch = new Watch(shared, prefix('a'), { startRevision: 2n, bufferBytes: 1_450_000 });
  const batches = watch.batches();
  const each = (act: (stream: SimulatedWatchStream) => void): void => streams.filter(({ over }) => !over).forEach(act);
  const serve = (): void => {
    for (let i = 0; i < 4; i += 1)
      each((s) => {
        s.serve(100);
        s.deliver(100);
      });
  };
  serve();
  const own = streams.at(-1) as SimulatedWatchStream;
  own.sync(0, 1_000, 1_000); // 2 to 1001: a full response, after which the watch has two parts
  serve();
  own.sync(0, 1_000, 1_000); // 1002 to 2001: the first part ends at 1952
  own.deliver(1);
  own.serve(100);
  own.sync(0, 1_000, 551); // 1952 to 2501 and the first key of 5502; then its second key
  own.deliver(2);
  const got: string[] = [];
  const take = async (): Promise<void> => {
    for (;;) {
      const { done, value } = await batches.next();
      if (done) return;
      if (value.revision > 2_501n) got.push(`${value.revision} ${value.events.map((event) => event.keyText())}`);
    }
  };
  const taking = take();
  await clock.pass(1);
  await clock.pass(1);
  for (let round = 0; round < 20; round += 1) {
    serve();
    for (let index = 0; index < 3; index += 1) each((s) => s.sync(index, 1_000, 1_000));
    serve();
    await clock.pass(1);
  }
  await watch.close();
  await taking;
  clock.restore();
  expect(got).toEqual(['5502 a1,a2']);
});
