import { createServer, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { Mutex, Session } from '../../src/locks.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';

// A call that times out may have failed at several endpoints, for different reasons. The error must show the latest
// failure at each endpoint, because the failure at the endpoint that was tried last may be the least important one.

const REFUSED = ['http://127.0.0.1:1', 'http://127.0.0.1:2'] as const;
const TIMEOUT_MS = 1_500;

/** Starts a server that refuses each call because it has no leader. Resolves with its URL. */
async function memberWithoutLeader(): Promise<string> {
  const server = createServer();
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session) => void sessions.add(session.on('error', () => {})));
  server.on('stream', (stream) => {
    const status = { 'grpc-status': '14', 'grpc-message': 'etcdserver: no leader' };
    stream
      .on('error', () => {})
      .respond({ ':status': 200, 'content-type': 'application/grpc', ...status }, { endStream: true });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('the error of a call names the latest failure at each endpoint when the call times out', async () => {
  const leaderless = await memberWithoutLeader();
  const endpoints = [REFUSED[0], leaderless, REFUSED[1]];
  const error = await errorOf(openClient({ endpoints, timeoutMs: TIMEOUT_MS }).get('a'));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded', endpoint: undefined });
  expect(error.problem).toContain(`etcdserver: no leader at ${leaderless}`);
  for (const refused of REFUSED) expect(error.problem).toContain(`cannot connect to ${refused}`);
  const { errors } = error.cause as AggregateError;
  expect(new Set(errors.map(({ endpoint }) => endpoint))).toEqual(new Set(endpoints));
});

test('the error of a call has the failure as its cause when the call has failed at one endpoint only', async () => {
  const leaderless = await memberWithoutLeader();
  const error = await errorOf(openClient({ endpoints: [leaderless], timeoutMs: TIMEOUT_MS }).get('a'));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded', endpoint: leaderless, cause: { reason: 'NoLeader' } });
});

test('the error of a call says what to do before it lists the failures when no endpoint can be reached', async () => {
  const error = await errorOf(openClient({ endpoints: REFUSED, timeoutMs: 300 }).put('a', 'b'));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent' });
  expect(error.problem).toMatch(
    /^call did not finish .*, because it reached no etcd: start etcd, or correct endpoints; /,
  );
});

test('the error of a call does not suggest correcting the endpoints when one endpoint can be reached', async () => {
  const endpoints = [REFUSED[0], await memberWithoutLeader()];
  const error = await errorOf(openClient({ endpoints, timeoutMs: TIMEOUT_MS }).get('a'));
  expect(error.problem).not.toContain('start etcd');
});

test('the error of a wait for a lock names the latest failure at each endpoint', async () => {
  const { endpoints, close } = await ownEtcd();
  const etcd = openClient({ endpoints: [...endpoints] });
  const session = await Session.open(etcd, { ttl: 60 });
  const leaderless = await memberWithoutLeader();
  etcd.setEndpoints([REFUSED[0], leaderless]);
  await close();
  const error = await errorOf(new Mutex(session, 'jobs').lock({ maxWaitMs: TIMEOUT_MS }));
  expect(error.reason).toBe('DeadlineExceeded');
  expect(error.problem).toContain('etcdserver: no leader');
  expect(error.problem).toContain(`cannot connect to ${REFUSED[0]}`);
});
