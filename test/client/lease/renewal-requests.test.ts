import { expect, test } from 'vitest';
import { ClientEvents } from '../../../src/base/log.js';
import { Moment } from '../../../src/client/lease/keep-alive.js';
import { RenewalStream } from '../../../src/client/lease/renewal-stream.js';
import type { LeaseKeepAliveRequest } from '../../../src/gen/etcdserverpb/rpc.js';
import { Rpc } from '../../../src/rpc/rpc.js';
import type { StreamHandler, Transport } from '../../../src/wire/transport.js';
import { bytesInUse } from '../../support/measure.js';

test('the renewal stream keeps no memory for closed keepalives whose last request the server has answered', async () => {
  const LEASES = 4_000;
  const requested: bigint[] = [];
  let handler: StreamHandler<unknown> | undefined;
  const transport: Transport = {
    unary: () => new Promise<never>(() => {}),
    stream: (_call, given) => {
      handler = given as StreamHandler<unknown>;
      const send = ({ id }: LeaseKeepAliveRequest): void => void requested.push(id);
      return { send: send as never, end: () => {}, cancel: () => {}, pause: () => {}, resume: () => {} };
    },
    close: async () => {},
  };
  const { signal: closed } = new AbortController();
  const settings = { timeoutMs: 1_000, renewsTokens: false, events: new ClientEvents(), closed };
  const renewals = new RenewalStream(new Rpc(transport, settings));
  // This keepalive keeps the stream open.
  const kept = renewals.keepAlive(1n, { sent: new Moment(), ttl: 9_000 });
  /** Closes keepalives with unanswered requests, of the leases from `first` on, and answers the requests. */
  const closeMany = async (first: number): Promise<void> => {
    const many = Array.from({ length: LEASES }, (_, index) => renewals.keepAlive(BigInt(first + index)));
    await expect.poll(() => requested.length).toBe(LEASES);
    for (const keepAlive of many) await keepAlive.close();
    for (const id of requested.splice(0)) handler?.message({ id, ttl: 10n });
  };
  await closeMany(2);
  const before = bytesInUse();
  await closeMany(2 + LEASES);
  await closeMany(2 + 2 * LEASES);
  expect((bytesInUse() - before) / (2 * LEASES)).toBeLessThan(30);
  await kept.close();
});
