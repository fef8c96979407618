import { expect, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { ROOT } from '../../support/auth-etcd.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { scriptedServer, scriptedUnary } from '../../support/scripted-server.js';

test("a call of the server's lock or election service rejects with outcome unknown when the server refuses every token, because a refused call may have put its key", async () => {
  const refused = () => {
    throw { code: 16, details: 'etcdserver: invalid auth token' };
  };
  const endpoint = await scriptedServer(
    scriptedUnary(methods.auth.authenticate, () => ({ token: 't' })),
    scriptedUnary(methods.lock.lock, refused),
    scriptedUnary(methods.election.campaign, refused),
    scriptedUnary(methods.kv.put, refused),
  );
  const { raw } = openClient({ endpoints: [endpoint], auth: ROOT });
  const name = Buffer.from(unique());
  expect(await errorOf(raw.lock.lock({ name }))).toMatchObject({ reason: 'InvalidAuthToken', outcome: 'unknown' });
  expect(await errorOf(raw.election.campaign({ name }))).toMatchObject({ outcome: 'unknown' });
  expect(await errorOf(raw.kv.put({ key: name }))).toMatchObject({ outcome: 'rejected' });
});

test('a `UserAdd` call with an empty user name rejects, and the client does not fetch a new token', async () => {
  let [authenticated, added] = [0, 0];
  const endpoint = await scriptedServer(
    scriptedUnary(methods.auth.authenticate, () => ({ token: `t${++authenticated}` })),
    scriptedUnary(methods.auth.userAdd, () => {
      added += 1;
      throw { code: 3, details: 'etcdserver: user name is empty' };
    }),
  );
  const { raw } = openClient({ endpoints: [endpoint], auth: ROOT });
  expect(await errorOf(raw.auth.userAdd({ name: '' }))).toMatchObject({ reason: 'UserEmpty', outcome: 'rejected' });
  expect([authenticated, added]).toEqual([1, 1]);
});
