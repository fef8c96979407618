import { expect, test } from 'vitest';
import { AutoSync } from '../../src/channel/auto-sync.js';
import type { Transport } from '../../src/transport/transport.js';

test('endpoints are not looked up any more once the client is closed', async () => {
  let syncs = 0;
  let synced = (): void => {};
  const inner = { unary: async () => ({}), stream: () => ({}), close: async () => {} } as unknown as Transport;
  const sync = new AutoSync(
    inner,
    () => {
      syncs += 1;
      return new Promise<void>((resolve) => {
        synced = resolve;
      });
    },
    5,
  );
  await sync.unary({} as never);
  await sync.close();
  synced();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(syncs).toBe(1);
});
