import { END_HEADERS, END_STREAM, encodeFrame, HEADERS, RST_STREAM } from '../../../course/02-frames.js';
import { encodeHeaders } from '../../../course/03-headers.js';
import { startProxy } from '../../../course/cut-proxy.js';
import {
  assertRejects,
  assertResult,
  assertThat,
  checks,
  grpcServer,
  newName,
  type ObservedServer,
  observedProxy,
  observedServer,
  PROGRAM,
} from '../check.js';

type Chapter = typeof import('../../../course/06-status.js') & typeof import('../../../course/answers/06-status.js');

const RANGE = '/etcdserverpb.KV/Range';
const REVOKE = '/etcdserverpb.Lease/LeaseRevoke';
const NO_LEASE = 12_345;

/** Returns the frame of an answer that is only trailers. */
function trailersFrame(stream: number, fields: Readonly<Record<string, string>>): Buffer {
  return encodeFrame(HEADERS, END_HEADERS | END_STREAM, stream, encodeHeaders({ ':status': '200', ...fields }));
}

export const STATUS = checks<Chapter>((check) => {
  check('call', PROGRAM, 'resolves with a response of 200 kB', async ({ call }, { connect, etcd }) => {
    const key = newName();
    await etcd.put(key, 'x'.repeat(200_000));
    const length = async () => (await call(connect(), RANGE, { 1: key })).messages(2)[0]?.bytes(5).length;
    await assertResult('the bytes of the value that call has got', length, 200_000);
  });
  check(
    'call',
    PROGRAM,
    'throws the status and the message of the server',
    async ({ call, CallError }, { connect }) => {
      const what = 'call of LeaseRevoke with a lease that does not exist';
      const expected = { status: 5, message: 'etcdserver: requested lease not found' };
      let thrown: unknown;
      const revoke = () =>
        call(connect(), REVOKE, { 1: NO_LEASE }).catch((error) => {
          thrown = error;
          throw error;
        });
      await assertRejects(what, revoke, expected);
      assertThat(thrown instanceof CallError, `${what}: threw an error that is not a CallError`);
    },
  );
  check('call', PROGRAM, 'decodes the message of the server', async ({ call }, { connect }) => {
    await using server = await grpcServer((stream) => [
      trailersFrame(stream, { 'grpc-status': '5', 'grpc-message': 'a%20b' }),
    ]);
    const refused = () => call(connect(server.address), RANGE, { 1: 'x' });
    await assertRejects('call with the answer "grpc-message: a%20b"', refused, { status: 5, message: 'a b' });
  });
  check('call', PROGRAM, 'throws status 14 when the server resets the stream', async ({ call }, { connect }) => {
    await using server = await grpcServer((stream) => [encodeFrame(RST_STREAM, 0, stream, Buffer.alloc(4))]);
    const reset = () => call(connect(server.address), RANGE, { 1: 'x' });
    await assertRejects('call with the answer RST_STREAM', reset, { status: 14 });
  });
  check('call', PROGRAM, 'throws status 14 when the connection is lost', async ({ call }, { address, connect }) => {
    const proxy = await startProxy(address);
    const connection = connect(proxy.address);
    await call(connection, RANGE, { 1: 'x' });
    proxy.close();
    for (const what of ['call on a connection that is lost', 'call on a connection that was lost before'])
      await assertRejects(what, () => call(connection, RANGE, { 1: 'x' }), { status: 14 });
  });
  check(
    'isOutcomeUnknown',
    1,
    'tells which statuses leave the outcome unknown',
    async ({ isOutcomeUnknown, CallError }) => {
      const test = (status: number, expected: boolean) => {
        const error = Object.assign(new CallError(''), { status });
        return assertResult(
          `isOutcomeUnknown of an error with status ${status}`,
          () => isOutcomeUnknown(error),
          expected,
        );
      };
      for (const status of [1, 2, 4, 8, 13, 14, 15]) await test(status, true);
      for (const status of [3, 5, 7, 12]) await test(status, false);
    },
  );
  check(
    'callWithin',
    2,
    'throws status 4 when the server does not answer',
    async ({ callWithin, CallError }, { connect }) => {
      await using silent = await observedServer();
      let thrown: unknown;
      const late = () =>
        callWithin(connect(silent.address), RANGE, { 1: 'x' }, 50).catch((error) => {
          thrown = error;
          throw error;
        });
      await assertRejects('callWithin at a silent server', late, { status: 4 });
      assertThat(thrown instanceof CallError, 'callWithin at a silent server: threw an error that is not a CallError');
    },
  );
  check(
    'callWithin',
    2,
    'returns what call returns, and throws what call throws',
    async ({ callWithin }, { connect, etcd }) => {
      const key = newName();
      await etcd.put(key, 'x');
      const found = async () => (await callWithin(connect(), RANGE, { 1: key }, 5_000)).messages(2).length;
      await assertResult('the keys that callWithin has found', found, 1);
      const refused = () => callWithin(connect(), REVOKE, { 1: NO_LEASE }, 5_000);
      await assertRejects('callWithin of LeaseRevoke with a lease that does not exist', refused, { status: 5 });
    },
  );
  check('read', 3, 'reads again after the connection was lost', async ({ read }, { address, etcd }) => {
    const key = newName();
    await etcd.put(key, 'x');
    await using proxy = await observedProxy(address, 2);
    const found = async () => (await read(proxy.address, RANGE, { 1: key }, 3)).messages(2).length;
    await assertResult('the keys that read finds on the third connection, with attempts = 3', found, 1);
  });
  check('read', 3, 'makes as many attempts as it may, and one if the server refuses the call', async ({ read }) => {
    const test = async (server: ObservedServer, what: string, status: number, expected: number) => {
      await assertRejects(`read at ${what}`, () => read(server.address, RANGE, { 1: 'x' }, 3), { status });
      await assertResult(`the connections of read with attempts = 3 at ${what}`, () => server.accepted(), expected);
    };
    await using closing = await observedServer((socket) => socket.destroy());
    await test(closing, 'a server that closes each connection', 14, 3);
    for (const status of [5, 13]) {
      await using refusing = await grpcServer((stream) => [trailersFrame(stream, { 'grpc-status': `${status}` })]);
      await test(refusing, `a server that answers with status ${status}`, status, 1);
    }
  });
});
