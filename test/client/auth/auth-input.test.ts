import { expect, test } from 'vitest';
import type { Auth } from '../../../src/client/services/auth.js';
import { keyRange } from '../../../src/index.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { recordingTransport } from '../../support/recording-transport.js';

const SECRET = 'open-sesame';
/** A password that a program passes as a number by mistake. */
const NUMERIC_SECRET = 837_465_921;

test.each<[argument: string, call: (auth: Auth) => Promise<unknown>]>([
  ['name', (auth) => auth.userAdd('', { password: SECRET })],
  ['name', (auth) => auth.userAdd(SECRET.length as never, { password: SECRET })],
  ['login', (auth) => auth.userAdd('u', SECRET as never)],
  ['login', (auth) => auth.userAdd('u', undefined as never)],
  ['login', (auth) => auth.userAdd('u', {} as never)],
  ['login', (auth) => auth.userAdd('u', { password: SECRET, noPassword: true } as never)],
  ['login', (auth) => auth.userAdd('u', { pasword: SECRET } as never)],
  ['password', (auth) => auth.userAdd('u', { password: '' })],
  ['password', (auth) => auth.userAdd('u', { password: NUMERIC_SECRET as never })],
  ['password', (auth) => auth.userAdd('u', { password: [SECRET] as never })],
  ['login', (auth) => auth.userAdd('u', { hashedPassword: SECRET } as never)],
  ['login', (auth) => auth.userAdd('u', { noPassword: false as never })],
  ['password', (auth) => auth.userChangePassword('u', { password: SECRET } as never)],
  ['password', (auth) => auth.userChangePassword('u', '')],
  ['password', (auth) => auth.userChangePassword('u', NUMERIC_SECRET as never)],
  ['name', (auth) => auth.userGet('')],
  ['name', (auth) => auth.userDelete('')],
  ['user', (auth) => auth.userGrantRole('', 'r')],
  ['role', (auth) => auth.userRevokeRole('u', '')],
  ['name', (auth) => auth.authenticate('', SECRET)],
  ['password', (auth) => auth.authenticate('u', '')],
  ['password', (auth) => auth.authenticate('u', NUMERIC_SECRET as never)],
  ['password', (auth) => auth.authenticate('u', { secret: SECRET } as never)],
  ['role', (auth) => auth.roleAdd('')],
  ['role', (auth) => auth.roleGet('')],
  ['role', (auth) => auth.roleDelete(undefined as never)],
  ['access', (auth) => auth.roleGrantPermission('r', 'all' as never, 'k')],
  ['keys', (auth) => auth.roleGrantPermission('r', 'read', '')],
  ['keys', (auth) => auth.roleRevokePermission('r', { start: 'b', end: 'c' } as never)],
  ['start', async (auth) => auth.roleRevokePermission('r', keyRange('b', 'a'))],
  ['keys', (auth) => auth.roleRevokePermission('r', undefined as never)],
])(
  'when the argument `%s` is invalid, the auth service sends nothing and rejects with an error that contains no password (case %#)',
  async (argument, call) => {
    const { transport, sent } = recordingTransport();
    const error = await errorOf(call(openClient({ transport }).auth));
    expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    expect(error.message.startsWith(argument)).toBe(true);
    expect(error.message).not.toContain(SECRET);
    expect(error.message).not.toContain(String(NUMERIC_SECRET));
    expect(sent).toEqual([]);
  },
);
