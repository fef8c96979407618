import { setTimeout as pause } from 'node:timers/promises';
import { Connection } from '../../../course/05-call.js';
import { call } from '../../../course/06-status.js';
import { grant } from '../../../course/08-lease.js';
import { enter } from '../../../course/09-queue.js';
import type { Call, Frame } from '../../../course/12-break-it.js';
import { startFaultProxy } from '../../../course/fault-proxy.js';
import { assertResult, assertThat, checks, newName, PROGRAM, resultOf } from '../check.js';

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

/** Returns the frames of one Put. `arrivalMs` and `answerMs` are the times of the request and of the answer. */
function framesOfPut(arrivalMs: number, answerMs: number): Frame[] {
  const common = { connection: 1, stream: 1 };
  const path = [[':path', '/etcdserverpb.KV/Put']] as const;
  const answer = [[':status', '200']] as const;
  const trailers = [['grpc-status', '0']] as const;
  return [
    { ...common, ms: arrivalMs, direction: 'sent', headers: path },
    { ...common, ms: arrivalMs, direction: 'sent', messages: [{ message: { key: 'a', value: 'b' } }] },
    { ...common, ms: answerMs, direction: 'received', headers: answer },
    { ...common, ms: answerMs, direction: 'received', messages: [{ message: {} }] },
    { ...common, ms: answerMs, direction: 'received', headers: trailers },
  ];
}

export const BREAK_IT = checks<Chapter>((check) => {
  check('callsIn', PROGRAM, 'collects the frames of each call', async ({ callsIn }, { address }) => {
    const key = newName();
    const { atClient, atEtcd } = await recorded(address, '', async (connection) => {
      await put(connection, key);
      await call(connection, '/etcdserverpb.KV/Range', { 1: key });
    });
    const expected = ['Put', 'Range'].map((method) => ({ method, requests: 1, responses: 1, status: 0 }));
    for (const [place, frames] of [['at the client', atClient] as const, ['at etcd', atEtcd] as const]) {
      const calls = await resultOf(`callsIn of a recording ${place}`, () => callsIn(frames), 'calls');
      const counts = calls.map(({ method, requests, responses, status }) => ({
        method,
        requests: requests.length,
        responses: responses.length,
        status,
      }));
      await assertResult(`callsIn of a Put and a Range, recorded ${place}`, () => counts, expected);
      await assertResult('the key in the request of the Put', () => calls[0]?.requests[0]?.message.key, key);
    }
  });
  check(
    'callsIn',
    PROGRAM,
    'tells calls apart that have the same stream on different connections',
    async ({ callsIn }) => {
      const frames = [
        keepAlive(1),
        keepAlive(2),
        ...renewal(1, 1, 2),
        ...renewal(2, 3, 4),
        ...renewal(2, 5, undefined),
        { ...keepAlive(3), ms: 6 },
      ];
      const counts = () => callsIn(frames).map(({ requests, responses }) => `${requests.length} ${responses.length}`);
      const what = 'the numbers of requests and responses on stream 3 of two connections';
      await assertResult(what, counts, ['1 1', '2 1']);
    },
  );
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
      const [cut, dropped] = results;
      assertThat(cut !== dropped, `outcomeOf: got "${cut}" for both, expected a difference`);
      const whole = { connection: 1, method: 'Txn', requests: [{ ms: 0, message: {} }], hasAnswer: true };
      const ended = (status: number, succeeded: boolean) =>
        outcomeOf({ ...whole, status, responses: status === 0 ? [{ ms: 1, message: { succeeded } }] : [] });
      const [held, notHeld, refused] = [ended(0, true), ended(0, false), ended(3, false)];
      const others = `"${held}" if the conditions held, "${notHeld}" if not, and "${refused}" for status 3`;
      assertThat(
        new Set([held, notHeld, refused, cut, dropped]).size === 5,
        `outcomeOf: got ${others}, "${cut}" and "${dropped}" for answers that are not whole, expected five results`,
      );
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
        await assertResult(`writeOutcome of ${what}`, () => writeOutcome(found[index] as Call), expected);
    },
  );
  check(
    'writeOutcome',
    1,
    'names the outcome of writes without a whole answer',
    async ({ callsIn, writeOutcome }, { address }) => {
      const writes = { Put: put, Txn: (connection: Connection, key: string) => enter(connection, key, 0n) };
      const test = async (fault: string, method: keyof typeof writes, what: string, expected: string) => {
        const { atClient } = await recorded(address, fault, (connection) => writes[method](connection, newName()));
        const found = callsIn(atClient).find((each) => each.method === method) as Call;
        await assertResult(`writeOutcome of ${what}`, () => writeOutcome(found), expected);
      };
      await test('drop-answer', 'Put', 'a Put of which the first HEADERS have arrived', 'applied');
      await test('drop-answer', 'Txn', 'a Txn of which only the first HEADERS have arrived', 'unknown');
      const responses = [{ ms: 1, message: { succeeded: true } }];
      const cutOff = { connection: 1, method: 'Txn', requests: responses, responses, hasAnswer: true };
      const what = 'writeOutcome of a Txn with the message of the answer, but without grpc-status';
      await assertResult(what, () => writeOutcome({ ...cutOff, status: undefined }), 'applied');
      await test('cut', 'Put', 'a Put without an answer', 'unknown');
      await test('refuse', 'Put', 'a Put with status 14', 'unknown');
    },
  );
  check(
    'slowestRenewal',
    2,
    'finds the renewal that a fault has delayed by 400 ms',
    async ({ slowestRenewal }, { address }) => {
      const fault = 'delay=400ms rpc=LeaseKeepAlive times=1';
      const { atClient, atEtcd } = await recorded(address, fault, async (connection) => {
        await grant(connection, 2);
        await pause(1_500);
      });
      const what = 'slowestRenewal with a delay of 400 ms';
      const slowest = await resultOf(`${what}, at the client`, () => slowestRenewal(atClient), '400');
      const atServer = await resultOf(`${what}, at etcd`, () => slowestRenewal(atEtcd), 'less');
      const wanted = 'expected 400 or a little more at the client, and less at etcd';
      const message = `${what}: got ${slowest} at the client and ${atServer} at etcd, ${wanted}`;
      assertThat(slowest >= 390 && slowest < 1_400 && atServer < slowest, message);
    },
  );
  check('slowestRenewal', 2, 'looks at all renewals, also at those without an answer', async ({ slowestRenewal }) => {
    const [first, second] = [keepAlive(1), keepAlive(2)];
    const frames = [first, ...renewal(1, 10, 30), ...renewal(1, 100, 150), ...renewal(1, 300, 301)];
    const test = (what: string, given: Frame[], expected: number) =>
      assertResult(`slowestRenewal of ${what}`, () => slowestRenewal(given), expected);
    await test('a recording without renewals', [], 0);
    await test('renewals of 20, 50 and 1 ms', frames, 50);
    const [sent, ...answer] = renewal(1, 400, 480) as [Frame, ...Frame[]];
    const overlapping = [...frames, second, sent, ...renewal(2, 410, 445), ...answer];
    await test('renewals of 80 and 35 ms on two connections at once', overlapping, 80);
    const lost = [...overlapping, ...renewal(2, 500, undefined)];
    await test('renewals of which the last one has no answer', lost, Number.POSITIVE_INFINITY);
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
        const what = `findFault of recordings ${fault === '' ? 'without a fault' : `with the fault ${fault}`}`;
        await assertResult(what, () => findFault(atClient, atEtcd), expected);
      }),
    );
  });
  check('findFault', 3, 'compares durations, because each recording has a clock of its own', async ({ findFault }) => {
    const test = (what: string, atClient: Frame[], atEtcd: Frame[], expected: string) =>
      assertResult(`findFault of ${what}`, () => findFault(atClient, atEtcd), expected);
    const [fast, slow] = [framesOfPut(10, 20), framesOfPut(10, 910)];
    await test(
      'a Put of 10 ms in both recordings, of which the second began 5 s earlier',
      fast,
      framesOfPut(5_010, 5_018),
      'none',
    );
    await test(
      'a Put of 10 ms in both recordings, of which the first began 5 s earlier',
      framesOfPut(5_010, 5_020),
      fast,
      'none',
    );
    await test('a Put of 900 ms, of which etcd needed 890 ms', slow, framesOfPut(10, 900), 'none');
    await test('a Put of 900 ms, of which etcd needed 10 ms', slow, framesOfPut(2_000, 2_010), 'delay');
  });
});
