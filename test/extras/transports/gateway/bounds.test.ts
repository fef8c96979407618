import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { gateway } from '../../../../src/gateway.js';
import { methods } from '../../../../src/gen/methods.js';
import { parseEndpoint } from '../../../../src/host/endpoint.js';
import type { TransportOptions } from '../../../../src/wire/transport.js';
import { errorOf } from '../../../support/errors.js';
import { httpServer, openGateway } from '../../../support/gateway.js';

const CREATED = '{"result":{"header":{"revision":"5"},"watch_id":"1","created":true}}\n';

test('a client stops reading a response that exceeds `maxReceiveBytes`, and closes the connection of the response', async () => {
  let closed = false;
  const url = await httpServer((request, response) => {
    request.resume();
    response.on('close', () => {
      closed = true;
    });
    response.write('{"header":{},"kvs":[');
    response.write(' '.repeat(100_000));
  });
  const etcd = openGateway({ endpoints: [url], maxReceiveBytes: 1_000 });
  expect(await errorOf(etcd.get('k'))).toMatchObject({ code: 'ResourceExhausted' });
  await expect.poll(() => closed, { timeout: 3_000 }).toBe(true);
});

test('a watch sends no second request while each event arrives less than `silenceMs` after the previous event', async () => {
  let watches = 0;
  const url = await httpServer(async (request, response) => {
    request.resume();
    watches += 1;
    response.write(CREATED);
    for (let revision = 6; revision < 20; revision += 1) {
      await pause(100);
      const event = { kv: { key: 'aw==', mod_revision: String(revision) } };
      response.write(`${JSON.stringify({ result: { header: {}, watch_id: '1', events: [event] } })}\n`);
    }
  });
  const batches = openGateway({ endpoints: [url], transport: gateway({ silenceMs: 800 }) })
    .watch('k')
    .batches();
  for (let revision = 6n; revision < 20n; revision += 1n) expect((await batches.next()).value?.revision).toBe(revision);
  expect(watches).toBe(1);
});

test('a client decodes a character whose bytes arrive in two chunks', async () => {
  const url = await httpServer(async (request, response) => {
    request.resume();
    const bytes = Buffer.from('{"header":{},"users":["\u{1f512}"]}');
    const at = bytes.indexOf(0xf0) + 2;
    response.write(bytes.subarray(0, at));
    await pause(100);
    response.end(bytes.subarray(at));
  });
  expect((await openGateway({ endpoints: [url] }).auth.userList()).users).toEqual(['\u{1f512}']);
});

test('a watch fails with ResourceExhausted when a line of its response exceeds `maxReceiveBytes`', async () => {
  const url = await httpServer((request, response) => {
    request.resume();
    response.write(CREATED);
    response.write(' '.repeat(100_000));
  });
  const watch = openGateway({ endpoints: [url], maxReceiveBytes: 1_000 }).watch('k');
  expect(await errorOf(watch.batches().next())).toMatchObject({ code: 'ResourceExhausted' });
});

test('a gateway transport keeps no reference to the handler of a canceled stream', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const url = await httpServer((request, response) => {
    request.resume();
    response.write(CREATED);
  });
  const transport = gateway()(parseEndpoint(url, 'endpoint'), TRANSPORT_OPTIONS);
  const held = ((): WeakRef<object>[] =>
    Array.from({ length: 5 }, () => {
      const handler = { message: () => {}, end: () => {} };
      transport.stream({ method: methods.watch.watch }, handler).cancel();
      return new WeakRef(handler);
    }))();
  await expect
    .poll(() => {
      collect();
      return held.filter((handler) => handler.deref() !== undefined).length;
    })
    .toBe(0);
  await transport.close();
});
const TRANSPORT_OPTIONS = {
  tls: undefined,
  maxRequestBytes: 1_000_000,
  maxReceiveBytes: 1_000_000,
} as unknown as TransportOptions;
