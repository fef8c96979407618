import { expect, test } from 'vitest';
import { TokenSource } from '../../src/channel/token-source.js';

const CREDENTIALS = { username: 'u', password: 'p' };

test('all who ask while a token is fetched get that one', async () => {
  let fetched = 0;
  const tokens = new TokenSource(CREDENTIALS, async () => `t${++fetched}`);
  expect(await Promise.all([tokens.get(), tokens.get(), tokens.get()])).toEqual(['t1', 't1', 't1']);
  expect(tokens.get()).toBe('t1');
});

test('a refusal of an old token that comes late does not discard the new one (S29)', async () => {
  let fetched = 0;
  const tokens = new TokenSource(CREDENTIALS, async () => `t${++fetched}`);
  await tokens.get();
  tokens.refused('t1');
  expect(await tokens.get()).toBe('t2');
  tokens.refused('t1');
  expect(tokens.get()).toBe('t2');
});

test('an exchange that failed is tried again by the next who asks, and by nobody else', async () => {
  let exchanges = 0;
  const tokens = new TokenSource(CREDENTIALS, async () => {
    exchanges += 1;
    if (exchanges === 1) throw new Error('no server');
    return 't';
  });
  await expect(tokens.get()).rejects.toThrow('no server');
  expect(exchanges).toBe(1);
  expect(await tokens.get()).toBe('t');
});

test('a token of the caller’s own is kept, whatever is said of it (S29)', () => {
  const tokens = new TokenSource({ token: 'mine' }, () => Promise.reject(new Error('not to be called')));
  tokens.refused('mine');
  expect([tokens.get(), tokens.renews]).toEqual(['mine', false]);
});
