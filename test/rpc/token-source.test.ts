import { expect, test } from 'vitest';
import { TokenSource } from '../../src/rpc/authentication.js';

const CREDENTIALS = { username: 'u', password: 'p' };

test('concurrent callers share one Authenticate call and get the same token', async () => {
  let fetched = 0;
  const tokens = new TokenSource(CREDENTIALS, async () => `t${++fetched}`);
  expect(await Promise.all([tokens.get(), tokens.get(), tokens.get()])).toEqual(['t1', 't1', 't1']);
  expect(tokens.get()).toBe('t1');
});

test('a late refusal of an old token does not discard the new token (S29)', async () => {
  let fetched = 0;
  const tokens = new TokenSource(CREDENTIALS, async () => `t${++fetched}`);
  await tokens.get();
  tokens.refused('t1');
  expect(await tokens.get()).toBe('t2');
  tokens.refused('t1');
  expect(tokens.get()).toBe('t2');
});

test('a failed Authenticate call is not repeated until the next caller asks for a token', async () => {
  let calls = 0;
  const tokens = new TokenSource(CREDENTIALS, async () => {
    calls += 1;
    if (calls === 1) throw new Error('no server');
    return 't';
  });
  await expect(tokens.get()).rejects.toThrow('no server');
  expect(calls).toBe(1);
  expect(await tokens.get()).toBe('t');
});

test('TokenSource keeps a token that the caller configured even if the server refuses the token (S29)', () => {
  const tokens = new TokenSource({ token: 'mine' }, () => Promise.reject(new Error('must not be called')));
  tokens.refused('mine');
  expect([tokens.get(), tokens.renews]).toEqual(['mine', false]);
});
