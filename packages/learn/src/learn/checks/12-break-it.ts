import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { inspect } from 'node:util';
import { Connection } from '../../../course/05-call.js';
import { call } from '../../../course/06-status.js';
import { grant } from '../../../course/08-lease.js';
import { enter } from '../../../course/09-queue.js';
import type { Call, Frame } from '../../../course/12-break-it.js';
import { startFaultProxy } from '../../../course/fault-proxy.js';
import { assertResult, checks, newName, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/12-break-it.js') &
  typeof import('../../../course/answers/12-break-it.js');

/** Time in milliseconds after which a call gets no answer any more. */
const NO_ANSWER_MS = 2_000;
/** Time in milliseconds in which each request, and each copy of a request, reaches a proxy. */
const ARRIVAL_MS = 200;

/** Makes calls through two proxies, of which the first causes a fault. Returns the recordings of both. */
async function recorded(address: string, fault: string, run: (connection: Connection) => Promise<unknown>) {
  const proxies = await startFaultProxy(address, ...(fault === '' ? [] : [fault]));
  const connection = new Connection(proxies.address);
  const failed = (): void => {};
  await Promise.race([run(connection).catch(failed), pause(fault === 'silent' ? ARRIVAL_MS : NO_ANSWER_MS)]);
  await pause(ARRIVAL_MS);
  connection.close();
  return proxies.stop();
}

const put = (connection: Connection, key: string) => call(connection, '/etcdserverpb.KV/Put', { 1: key, 2: 'value' });

/** Returns the frames of one renewal, and of its answer unless `answeredMs` is undefined. */
function renewal(connection: number, sentMs: number, answeredMs: number | undefined): Frame[] {
  const common = { connection, stream: 3, messages: [{ message: { ID: '7' } }] };
  const sent: Frame = { ...common, ms: sentMs, direction: 'sent' };
  return answeredMs === undefined ? [sent] : [sent, { ...common, ms: answeredMs, direction: 'received' }];
}

function keepAlive(connection: number): Frame {
  const headers = [[':path', '/etcdserverpb.Lease/LeaseKeepAlive']] as const;
  return { ms: 0, connection, stream: 3, direction: 'sent', headers };
}

export const BREAK_IT = checks<Chapter>((check) => {
  check('callsIn', PROGRAM, 'collects the frames of each call', async ({ callsIn }, { address }) => {
    const key = newName();
    const { atClient, atEtcd } = await recorded(address, '', async (connection) => {
      await put(connection, key);
      await call(connection, '/etcdserverpb.KV/Range', { 1: key });
    });
    for (const frames of [atClient, atEtcd]) {
      const calls = callsIn(frames);
      assert.deepEqual(
        calls.map(({ method, requests, responses, status }) => [method, requests.length, responses.length, status]),
        [
          ['Put', 1, 1, 0],
          ['Range', 1, 1, 0],
        ],
      );
      assertResult('the key in the request of the Put', () => calls[0]?.requests[0]?.message.key, key);
    }
  });
  check('callsIn', PROGRAM, 'tells calls apart that have the same stream on different connections', ({ callsIn }) => {
    const frames = [keepAlive(1), keepAlive(2), ...renewal(1, 1, 2), ...renewal(2, 3, 4), ...renewal(2, 5, undefined)];
    const counts = callsIn(frames).map(({ requests, responses }) => [requests.length, responses.length]);
    assert.deepEqual(counts, [
      [1, 1],
      [2, 1],
    ]);
  });
  check(
    'outcomeOf',
    PROGRAM,
    'tells an answer that was cut off from a call without an answer',
    async ({ callsIn, outcomeOf }, { address }) => {
      const results = [];
      for (const fault of ['cut', 'drop-answer']) {
        const { atClient } = await recorded(address, `${fault} rpc=Txn`, (connection) =>
          enter(connection, newName(), 0n),
        );
        const found = callsIn(atClient).find(({ method }) => method === 'Txn');
        results.push(found === undefined ? 'no Txn' : outcomeOf(found));
      }
      assert.ok(results[0] !== results[1], `got ${inspect(results[0])} for both`);
    },
  );
  check(
    'writeOutcome',
    1,
    'names the outcome of writes with a whole answer',
    async ({ callsIn, writeOutcome }, { address }) => {
      const key = newName();
      const { atClient } = await recorded(address, '', async (connection) => {
        await put(connection, key);
        await enter(connection, `${key}/queue`, 0n);
        await enter(connection, `${key}/queue`, 0n);
        await call(connection, '/etcdserverpb.KV/DeleteRange', { 1: key });
        await put(connection, '').catch(() => {});
      });
      const found = callsIn(atClient);
      const calls = [
        ['a Put', 'applied'],
        ['a Txn whose condition held', 'applied'],
        ['a Txn whose condition did not hold', 'rejected'],
        ['a DeleteRange', 'applied'],
        ['a Put without a key, which etcd refuses with status 3', 'rejected'],
      ] as const;
      for (const [index, [what, expected]] of calls.entries())
        assertResult(what, () => writeOutcome(found[index] as Call), expected);
    },
  );
  check(
    'writeOutcome',
    1,
    'names the outcome of writes without a whole answer',
    async ({ callsIn, writeOutcome }, { address }) => {
      const writes = { Put: put, Txn: (connection: Connection, key: string) => enter(connection, key, 0n) };
      const check = async (fault: string, method: keyof typeof writes, what: string, expected: string) => {
        const { atClient } = await recorded(address, fault, (connection) => writes[method](connection, newName()));
        const found = callsIn(atClient).find((each) => each.method === method) as Call;
        assertResult(what, () => writeOutcome(found), expected);
      };
      await check('drop-answer', 'Put', 'a Put whose answer has begun', 'applied');
      await check(
        'drop-answer',
        'Txn',
        'a Txn whose answer has begun, but does not say whether the condition held',
        'unknown',
      );
      const responses = [{ ms: 1, message: { succeeded: true } }];
      const cutOff = { connection: 1, method: 'Txn', requests: responses, responses, hasAnswer: true };
      const what = 'a Txn with the message of the answer, but without grpc-status';
      assertResult(what, () => writeOutcome({ ...cutOff, status: undefined }), 'applied');
      await check('cut', 'Put', 'a Put without an answer', 'unknown');
      await check('refuse', 'Put', 'a Put with status 14', 'unknown');
    },
  );
  check(
    'slowestRenewal',
    2,
    'finds the renewal that a fault has delayed by 400 ms',
    async ({ slowestRenewal }, { address }) => {
      const { atClient, atEtcd } = await recorded(
        address,
        'delay=400ms rpc=LeaseKeepAlive times=1',
        async (connection) => {
          await grant(connection, 2);
          await pause(1_500);
        },
      );
      const [slowest, atServer] = [slowestRenewal(atClient), slowestRenewal(atEtcd)];
      assert.ok(slowest >= 390 && slowest < 1_400, `at the client: got ${slowest}, expected 400 or a little more`);
      assert.ok(atServer < slowest, `at etcd: got ${atServer}, expected less than the ${slowest} at the client`);
    },
  );
  check('slowestRenewal', 2, 'looks at all renewals, also at those without an answer', ({ slowestRenewal }) => {
    const [first, second] = [keepAlive(1), keepAlive(2)];
    const frames = [first, ...renewal(1, 10, 30), ...renewal(1, 100, 150), ...renewal(1, 300, 301)];
    assertResult('no renewals', () => slowestRenewal([]), 0);
    assertResult('renewals of 20, 50 and 1 ms', () => slowestRenewal(frames), 50);
    const [sent, ...answer] = renewal(1, 400, 480) as [Frame, ...Frame[]];
    const overlapping = [...frames, second, sent, ...renewal(2, 410, 445), ...answer];
    assertResult('renewals of two connections at once', () => slowestRenewal(overlapping), 80);
    const lost = [...overlapping, ...renewal(2, 500, undefined)];
    assertResult('a renewal without an answer', () => slowestRenewal(lost), Number.POSITIVE_INFINITY);
  });
  check('findFault', 3, 'finds out which fault the first proxy has caused', async ({ findFault }, { address }) => {
    const faults = {
      '': 'none',
      cut: 'cut or silent',
      silent: 'cut or silent',
      refuse: 'refuse',
      'delay=800ms': 'delay',
      'drop-answer': 'drop-answer',
      duplicate: 'duplicate',
    };
    await Promise.all(
      Object.entries(faults).map(async ([fault, expected]) => {
        const { atClient, atEtcd } = await recorded(address, fault, (connection) => put(connection, newName()));
        const what = fault === '' ? 'without a fault' : `with the fault ${fault}`;
        assertResult(what, () => findFault(atClient, atEtcd), expected);
      }),
    );
  });
});
