import { expect, test } from 'vitest';
import { toBytes } from '../../../src/base/bytes.js';
import { prefix } from '../../../src/index.js';
import { openClient, unique } from '../../../test/support/client.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { MirrorTarget, PositionMoved } from '../src/copy/mirror-target.js';

const CLAIM = { ownOnly: false, startsAnew: false, checkNew: async () => {} };

test('MirrorTarget knows its own cluster, and does not decide after another mirror has taken over or given up the position', async () => {
  const { endpoints } = await ownEtcd();
  const other = openClient({ endpoints });
  const client = openClient();
  const { key, rangeEnd } = prefix('a/');
  const range = { key, rangeEnd };
  const options = {
    client,
    source: range,
    destination: range,
    positionKey: toBytes(unique(), 'key'),
    maxTxnOps: 128,
    call: {},
  };
  const [first, second] = [new MirrorTarget(options, 'first'), new MirrorTarget(options, 'second')];
  await first.claim(CLAIM);
  expect(await first.isSameCluster(openClient())).toBe(true);
  expect(await first.isSameCluster(other)).toBe(false);
  await second.claim(CLAIM);
  await expect(first.isSameCluster(openClient())).rejects.toThrow(PositionMoved);
  expect(await second.isSameCluster(openClient())).toBe(true);
  await second.abandon();
  await expect(first.isSameCluster(openClient())).rejects.toThrow(PositionMoved);
});
