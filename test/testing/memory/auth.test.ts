import { describe, expect, test } from 'vitest';
import { NO_BYTES } from '../../../src/base/bytes.js';
import { PermissionType } from '../../../src/gen/authpb/auth.js';
import type { TxnRequest } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import type { Auth } from '../../../src/testing/memory/auth.js';
import { grantsAccess } from '../../../src/testing/memory/auth-permissions.js';
import { registerAuth } from '../../../src/testing/memory/auth-service.js';
import { KeyRange } from '../../../src/testing/memory/key-range.js';
import { registerKv } from '../../../src/testing/memory/kv-service.js';
import { registerLease } from '../../../src/testing/memory/lease-service.js';
import { registerMaintenance } from '../../../src/testing/memory/maintenance-service.js';
import { type ServerCall, StatusError, serverError } from '../../../src/testing/memory/service.js';
import type { MemberSettings } from '../../../src/testing/memory/settings.js';
import type { Method } from '../../../src/wire/protobuf/schema.js';
import type { Init } from '../../../src/wire/protobuf/writer.js';
import { randomNumbers } from '../../load/rounds.js';
import { ServiceBench, utf8 } from '../../support/memory-services.js';

const { auth, kv, lease, maintenance, cluster, watch, lock, election } = methods;
const { READ, WRITE, READWRITE } = PermissionType;
const OPEN_END = utf8('\0');

const NO_PASSWORD_USER = new StatusError(
  'Unknown',
  'auth: authentication failed, password was given for no password user',
);

function openBench(settings: Partial<MemberSettings> = {}): ServiceBench {
  const bench = new ServiceBench(settings);
  for (const register of [registerAuth, registerKv, registerLease, registerMaintenance])
    register(bench.router, bench.member);
  return bench;
}

/** A member with the users root and alice. Alice has the role `reader`, which has no permission yet. */
function openSecured(settings: Partial<MemberSettings> = {}): ServiceBench {
  const bench = openBench(settings);
  bench.call(auth.userAdd, { name: 'root', password: 'secret' });
  bench.call(auth.userGrantRole, { user: 'root', role: 'root' });
  bench.call(auth.userAdd, { name: 'alice', password: 'wonder' });
  bench.call(auth.roleAdd, { name: 'reader' });
  bench.call(auth.userGrantRole, { user: 'alice', role: 'reader' });
  bench.call(auth.authEnable, {});
  return bench;
}

function logIn(bench: ServiceBench, name: 'root' | 'alice'): string {
  const password = name === 'root' ? 'secret' : 'wonder';
  const { token } = bench.call(auth.authenticate, { name, password });
  bench.metadata = { token };
  return token;
}

function grant(bench: ServiceBench, permType: PermissionType, key: string, rangeEnd = ''): void {
  logIn(bench, 'root');
  bench.call(auth.roleGrantPermission, {
    name: 'reader',
    perm: { permType, key: utf8(key), rangeEnd: utf8(rangeEnd) },
  });
}

/** Returns the error with which the member refuses the call, or `ok`. */
function outcome<Request, Response>(
  bench: ServiceBench,
  method: Method<Request, Response, 'unary'>,
  request: Init<Request>,
): string {
  try {
    bench.call(method, request);
    return 'ok';
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    return `${error.code}: ${error.message}`;
  }
}

function textOf(error: StatusError): string {
  return `${error.code}: ${error.message}`;
}

const DENIED = textOf(serverError('PermissionDenied'));
const NO_USER = textOf(serverError('UserEmpty'));

describe("MemoryEtcd's AuthEnable", () => {
  test('requires a user root with the role root', () => {
    const bench = openBench();
    expect(() => bench.call(auth.authEnable, {})).toThrow(serverError('RootUserNotExist'));
    bench.call(auth.userAdd, { name: 'root', password: 'secret' });
    expect(() => bench.call(auth.authEnable, {})).toThrow(serverError('RootRoleNotExist'));
    bench.call(auth.userGrantRole, { user: 'root', role: 'root' });
    bench.call(auth.authEnable, {});
    logIn(bench, 'root');
    const header = bench.member.header();
    expect(bench.call(auth.authStatus, {})).toEqual({ header, enabled: true, authRevision: 3n });
  });

  test('keeps the tokens when authentication is enabled already', () => {
    const bench = openSecured();
    logIn(bench, 'root');
    bench.call(auth.authEnable, {});
    expect(outcome(bench, auth.authStatus, {})).toBe('ok');
  });
});

describe("MemoryEtcd's AuthDisable", () => {
  test('increases the revision once, and makes all tokens invalid', () => {
    const bench = openSecured();
    const token = logIn(bench, 'root');
    bench.call(auth.authDisable, {});
    const { authRevision } = bench.call(auth.authStatus, {});
    bench.call(auth.authDisable, {});
    expect(bench.call(auth.authStatus, {})).toMatchObject({ enabled: false, authRevision });
    bench.metadata = {};
    bench.call(auth.authEnable, {});
    bench.metadata = { token };
    expect(outcome(bench, auth.authStatus, {})).toBe(textOf(serverError('InvalidAuthToken')));
  });
});

describe("MemoryEtcd's Authenticate", () => {
  test('rejects every user while authentication is disabled', () => {
    expect(() => openBench().call(auth.authenticate, {})).toThrow(serverError('AuthNotEnabled'));
  });

  test.for([
    ['root', 'wrong', serverError('AuthFailed')],
    ['root', '', serverError('AuthFailed')],
    ['nobody', 'secret', serverError('AuthFailed')],
    ['certificate', 'secret', NO_PASSWORD_USER],
  ] as const)('rejects the user %s with the password "%s"', ([name, password, error]) => {
    const bench = openSecured();
    logIn(bench, 'root');
    bench.call(auth.userAdd, { name: 'certificate', options: { noPassword: true } });
    expect(() => bench.call(auth.authenticate, { name, password })).toThrow(error);
  });

  test('returns 16 letters and the index of the request as the token', () => {
    const bench = openSecured();
    const token = logIn(bench, 'root');
    expect(token).toMatch(/^[A-Za-z]{16}\.[0-9]+$/);
    expect(token.split('.')[1]).toBe(`${bench.member.raftIndex}`);
  });

  test('accepts another password from which bcrypt derives the same key', () => {
    const bench = openSecured();
    logIn(bench, 'root');
    bench.call(auth.userAdd, { name: 'short', password: 'ab' });
    bench.call(auth.userAdd, { name: 'long', password: 'p'.repeat(72) });
    expect(outcome(bench, auth.authenticate, { name: 'short', password: 'ab\0ab' })).toBe('ok');
    expect(outcome(bench, auth.authenticate, { name: 'short', password: 'ab\0' })).not.toBe('ok');
    expect(outcome(bench, auth.authenticate, { name: 'long', password: 'p'.repeat(80) })).toBe('ok');
  });

  test('succeeds with an invalid token in the metadata', () => {
    const bench = openSecured();
    bench.metadata = { token: 'expired.1' };
    expect(outcome(bench, auth.authenticate, { name: 'alice', password: 'wonder' })).toBe('ok');
  });
});

describe('a token of a MemoryEtcd', () => {
  const INVALID = textOf(serverError('InvalidAuthToken'));
  const TTL_MS = 300_000;

  test('expires up to a second after its TTL without use', () => {
    const bench = openSecured();
    logIn(bench, 'root');
    bench.clock.advance(TTL_MS);
    expect(outcome(bench, auth.authStatus, {})).toBe('ok');
    bench.clock.advance(TTL_MS + 1_000);
    expect(outcome(bench, auth.authStatus, {})).toBe(INVALID);
  });

  test('stays valid while it is used', () => {
    const bench = openSecured({ tokenTtlSeconds: 2 });
    logIn(bench, 'root');
    for (let second = 0; second < 10; second += 1) {
      bench.clock.advance(1_000);
      expect(outcome(bench, auth.authStatus, {})).toBe('ok');
    }
  });

  test.for([['authorization'], ['token']])('arrives in the metadata %s, with or without the word Bearer', ([name]) => {
    const bench = openSecured();
    const token = logIn(bench, 'root');
    for (const value of [token, `Bearer ${token}`]) {
      bench.metadata = { [name as string]: value };
      expect(outcome(bench, auth.authStatus, {})).toBe('ok');
    }
  });

  test.for(['', 'x', 'x.1', 'x.y', '.1', 'a.1.2', `a.${2n ** 64n}`])('"%s" is invalid', (token) => {
    const bench = openSecured();
    bench.metadata = { token };
    expect(outcome(bench, kv.range, { key: utf8('a') })).toBe(INVALID);
  });

  test('becomes invalid when its user gets another password or is deleted', () => {
    const bench = openSecured();
    const token = logIn(bench, 'alice');
    logIn(bench, 'root');
    bench.call(auth.userChangePassword, { name: 'alice', password: 'wonder' });
    bench.metadata = { token };
    expect(outcome(bench, auth.userGet, { name: 'alice' })).toBe(INVALID);
    const next = logIn(bench, 'alice');
    logIn(bench, 'root');
    bench.call(auth.userDelete, { name: 'alice' });
    bench.metadata = { token: next };
    expect(outcome(bench, auth.userGet, { name: 'alice' })).toBe(INVALID);
  });

  test('is ignored while authentication is disabled', () => {
    const bench = openBench();
    bench.metadata = { token: 'x' };
    expect(outcome(bench, auth.authStatus, {})).toBe('ok');
  });
});

describe('a user of a MemoryEtcd', () => {
  test('must have a name', () => {
    expect(() => openBench().call(auth.userAdd, { password: 'x' })).toThrow(serverError('UserEmpty'));
  });

  test('has a password of at most 72 bytes, which the server checks first', () => {
    const bench = openSecured();
    const request = { name: '', password: 'ü'.repeat(37) };
    expect(outcome(bench, auth.userAdd, request)).toBe('Unknown: bcrypt: password length exceeds 72 bytes');
  });

  test('cannot be added twice', () => {
    const bench = openBench();
    bench.call(auth.userAdd, { name: 'a', password: 'x' });
    expect(() => bench.call(auth.userAdd, { name: 'a', password: 'x' })).toThrow(serverError('UserAlreadyExist'));
  });

  test('is listed in byte order', () => {
    const bench = openBench();
    const names = ['b', 'a', '\u{1f600}', '\uffff', 'ä'];
    for (const name of names) bench.call(auth.userAdd, { name, password: '' });
    expect(bench.call(auth.userList, {}).users).toEqual(['a', 'b', 'ä', '\uffff', '\u{1f600}']);
  });

  test.for(['userGet', 'userDelete', 'userChangePassword', 'userRevokeRole'] as const)(
    'that does not exist is not found by %s',
    (name) => {
      const method: Method<{ name: string }, unknown, 'unary'> = auth[name];
      expect(() => openBench().call(method, { name: 'x' })).toThrow(serverError('UserNotFound'));
    },
  );

  test('has each granted role once, in byte order', () => {
    const bench = openBench();
    bench.call(auth.userAdd, { name: 'a', password: '' });
    for (const role of ['r2', 'r1']) bench.call(auth.roleAdd, { name: role });
    for (const role of ['r2', 'root', 'r1', 'r2']) bench.call(auth.userGrantRole, { user: 'a', role });
    expect(bench.call(auth.userGet, { name: 'a' }).roles).toEqual(['r1', 'r2', 'root']);
    expect(bench.call(auth.authStatus, {}).authRevision).toBe(7n);
    bench.call(auth.userRevokeRole, { name: 'a', role: 'r2' });
    expect(bench.call(auth.userGet, { name: 'a' }).roles).toEqual(['r1', 'root']);
    expect(() => bench.call(auth.userRevokeRole, { name: 'a', role: 'r2' })).toThrow(serverError('RoleNotGranted'));
  });

  test.for([
    ['', 'ok'],
    ['aGFsbG8=', 'ok'],
    ['aGFs\nbG8=', 'ok'],
    ['aGFsbG8', textOf(NO_PASSWORD_USER)],
    ['a===', textOf(NO_PASSWORD_USER)],
    ['!', textOf(NO_PASSWORD_USER)],
  ] as const)('with the hash "%s" in place of a password: %s', ([hashedPassword, expected]) => {
    const bench = openSecured();
    logIn(bench, 'root');
    expect(outcome(bench, auth.userChangePassword, { name: 'alice', hashedPassword })).toBe(expected);
    const afterwards = outcome(bench, auth.authenticate, { name: 'alice', password: 'wonder' });
    expect(afterwards).toBe(expected === 'ok' ? textOf(serverError('AuthFailed')) : 'ok');
  });

  test('root and its role cannot be removed while authentication is enabled', () => {
    const bench = openSecured();
    logIn(bench, 'root');
    const error = textOf(serverError('InvalidAuthMgmt'));
    expect(outcome(bench, auth.userDelete, { name: 'root' })).toBe(error);
    expect(outcome(bench, auth.userRevokeRole, { name: 'root', role: 'root' })).toBe(error);
    expect(outcome(bench, auth.roleDelete, { role: 'root' })).toBe(error);
    bench.call(auth.authDisable, {});
    expect(outcome(bench, auth.roleDelete, { role: 'root' })).toBe(textOf(serverError('RoleNotFound')));
    expect(outcome(bench, auth.userRevokeRole, { name: 'root', role: 'root' })).toBe('ok');
    expect(outcome(bench, auth.userDelete, { name: 'root' })).toBe('ok');
  });
});

describe('a role of a MemoryEtcd', () => {
  const perm = (key: string, rangeEnd: string, permType: PermissionType = READ) => ({
    permType,
    key: utf8(key),
    rangeEnd: utf8(rangeEnd),
  });

  test('must have a name, and cannot be added twice', () => {
    const bench = openBench();
    expect(() => bench.call(auth.roleAdd, {})).toThrow(serverError('RoleEmpty'));
    bench.call(auth.roleAdd, { name: 'r' });
    expect(() => bench.call(auth.roleAdd, { name: 'r' })).toThrow(serverError('RoleAlreadyExist'));
    expect(bench.call(auth.roleList, {}).roles).toEqual(['r']);
  });

  test('is revoked from its users when it is deleted', () => {
    const bench = openSecured();
    logIn(bench, 'root');
    bench.call(auth.roleDelete, { role: 'reader' });
    expect(bench.call(auth.userGet, { name: 'alice' }).roles).toEqual([]);
    expect(() => bench.call(auth.roleGet, { role: 'reader' })).toThrow(serverError('RoleNotFound'));
  });

  test('orders its permissions by key, and replaces the type of a permission for the same range', () => {
    const bench = openBench();
    bench.call(auth.roleAdd, { name: 'r' });
    const granted = [perm('b', ''), perm('a', 'c'), perm('a', ''), perm('a', 'c', WRITE), perm('c', '\0')];
    for (const permission of granted) bench.call(auth.roleGrantPermission, { name: 'r', perm: permission });
    const [b, , a, ac, c] = granted;
    expect(bench.call(auth.roleGet, { role: 'r' }).perm).toEqual([ac, a, b, c]);
    bench.call(auth.roleRevokePermission, { role: 'r', key: utf8('a') });
    expect(bench.call(auth.roleGet, { role: 'r' }).perm).toEqual([ac, b, c]);
    const again = { role: 'r', key: utf8('a') };
    expect(() => bench.call(auth.roleRevokePermission, again)).toThrow(serverError('PermissionNotGranted'));
  });

  test.for([
    ['', ''],
    ['', '\0'],
    ['b', 'b'],
    ['b', 'a'],
  ] as const)('gets no permission for the range from "%s" to "%s"', ([key, rangeEnd]) => {
    const request = { name: 'missing', perm: perm(key, rangeEnd) };
    expect(() => openBench().call(auth.roleGrantPermission, request)).toThrow(serverError('InvalidAuthMgmt'));
  });

  test('rejects a request without a permission', () => {
    const request = { name: 'missing' };
    expect(() => openBench().call(auth.roleGrantPermission, request)).toThrow(serverError('PermissionNotGiven'));
  });

  test.for([
    ['3.5', [perm('a', '')]],
    ['3.6', [{ permType: READWRITE, key: NO_BYTES, rangeEnd: OPEN_END }]],
    ['3.7', [{ permType: READWRITE, key: NO_BYTES, rangeEnd: OPEN_END }]],
  ] as const)('root has the permissions of etcd %s', ([version, expected]) => {
    const bench = openBench({ version });
    expect(() => bench.call(auth.roleGet, { role: 'root' })).toThrow(serverError('RoleNotFound'));
    bench.call(auth.roleAdd, { name: 'root' });
    bench.call(auth.roleGrantPermission, { name: 'root', perm: perm('a', '') });
    expect(bench.call(auth.roleGet, { role: 'root' }).perm).toEqual(expected);
  });
});

describe('permissions of a role of a MemoryEtcd', () => {
  test('grant a range exactly if they grant each of its keys', () => {
    const random = randomNumbers(17);
    const oneOf = <T>(...values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
    const keys = ['a', 'a\0', 'b', 'b\0', 'c', 'c\0', 'd', 'd\0', 'e'];
    const range = () => {
      const key = oneOf('a', 'b', 'c', 'd');
      const ends = ['', '\0', ...['b', 'c', 'd', 'e'].filter((end) => end > key)];
      return { key: utf8(key), rangeEnd: utf8(oneOf(...ends)) };
    };
    let granted = 0;
    for (let round = 0; round < 1_000; round += 1) {
      const permissions = Array.from({ length: Math.floor(random() * 5) }, () => ({
        permType: oneOf(READ, WRITE, READWRITE),
        ...range(),
      }));
      const wanted = range();
      const readable = permissions
        .filter(({ permType }) => permType !== WRITE)
        .map(({ key, rangeEnd }) => new KeyRange(key, rangeEnd));
      const wantedRange = new KeyRange(wanted.key, wanted.rangeEnd);
      const expected = keys.every((key) => !wantedRange.has(key) || readable.some((granting) => granting.has(key)));
      expect(grantsAccess(permissions, READ, wanted.key, wanted.rangeEnd)).toBe(expected);
      if (expected) granted += 1;
    }
    expect(granted).toBeGreaterThan(100);
  });

  test('for the first key suffice when a range ends before it starts', () => {
    const permission = { permType: READ, key: utf8('b'), rangeEnd: utf8('c') };
    expect(grantsAccess([permission], READ, utf8('b'), utf8('a'))).toBe(true);
    expect(grantsAccess([permission], READ, utf8('c'), utf8('a'))).toBe(false);
  });
});

describe("MemoryEtcd's authorization", () => {
  const put = (key: string, prevKv = false, id = 0n): Init<TxnRequest> => ({
    success: [{ request: { case: 'requestPut', value: { key: utf8(key), prevKv, lease: id } } }],
  });

  test('accepts every call while authentication is disabled', () => {
    const { member } = openBench();
    const call = { metadata: {}, endpoint: '', signal: new AbortController().signal };
    for (const service of Object.values(methods))
      for (const method of Object.values(service) as Method<unknown, unknown>[])
        expect(() => member.auth.authorize(method.path, method.request.create(), call)).not.toThrow();
  });

  test('requires a user for every method, except those that check nothing or check their parts', () => {
    const { member } = openSecured();
    const call = { metadata: {}, endpoint: '', signal: new AbortController().signal };
    const free = [];
    for (const service of Object.values(methods))
      for (const method of Object.values(service) as Method<unknown, unknown>[]) {
        try {
          authorizeAndAdmit(member.auth, method, call);
          free.push(method.path);
        } catch (error) {
          if (method.path !== auth.userGet.path) expect(error).toEqual(serverError('UserEmpty'));
        }
      }
    const parts = [kv.txn, watch.watch, auth.authenticate, auth.userGet];
    const services = [...Object.values(lock), ...Object.values(election)];
    expect(free.sort()).toEqual([...parts, ...services].map(({ path }) => path).sort());
  });

  test('permits only root to change users, members and the state of the server', () => {
    const bench = openSecured();
    logIn(bench, 'alice');
    const call = { metadata: bench.metadata, endpoint: '', signal: new AbortController().signal };
    const permitted = [];
    for (const service of [auth, cluster, maintenance])
      for (const method of Object.values(service) as Method<unknown, unknown>[]) {
        try {
          authorizeAndAdmit(bench.member.auth, method, call);
          permitted.push(method.path);
        } catch (error) {
          expect(error).toEqual(serverError('PermissionDenied'));
        }
      }
    const expected = [auth.authenticate, cluster.memberList, maintenance.alarm, maintenance.status];
    expect(permitted.sort()).toEqual(expected.map(({ path }) => path).sort());
  });

  test('permits users to read themselves and their roles', () => {
    const bench = openSecured();
    logIn(bench, 'alice');
    expect(outcome(bench, auth.userGet, { name: 'alice' })).toBe('ok');
    expect(outcome(bench, auth.roleGet, { role: 'reader' })).toBe('ok');
    expect(outcome(bench, auth.userGet, { name: 'root' })).toBe(DENIED);
    expect(outcome(bench, auth.roleGet, { role: 'root' })).toBe(DENIED);
  });

  test.for([
    ['3.5', NO_USER],
    ['3.6', NO_USER],
    ['3.7', 'ok'],
  ] as const)('answers AuthStatus without a token as etcd %s: %s', ([version, expected]) => {
    expect(outcome(openSecured({ version }), auth.authStatus, {})).toBe(expected);
  });

  test('checks each key of each operation of both branches', () => {
    const bench = openSecured();
    grant(bench, READWRITE, 'a', 'c');
    logIn(bench, 'alice');
    const nested: Init<TxnRequest> = { success: [{ request: { case: 'requestTxn', value: put('z') } }] };
    const compare = (key: string) => ({
      compare: [{ key: utf8(key), targetUnion: { case: 'version', value: 0n } }] as const,
    });
    expect(outcome(bench, kv.txn, { ...compare('a'), ...put('b') })).toBe('ok');
    expect(outcome(bench, kv.txn, compare('z'))).toBe(DENIED);
    expect(outcome(bench, kv.txn, { failure: put('z').success })).toBe(DENIED);
    expect(outcome(bench, kv.txn, { failure: put('a').success })).toBe('ok');
    expect(outcome(bench, kv.txn, nested)).toBe(DENIED);
    const range = { case: 'requestRange', value: { key: utf8('b'), rangeEnd: utf8('d') } } as const;
    expect(outcome(bench, kv.txn, { success: [{ request: range }] })).toBe(DENIED);
  });

  test('requires the permission to read for a put or a deletion with `prevKv`', () => {
    const bench = openSecured();
    grant(bench, WRITE, 'a');
    logIn(bench, 'alice');
    const key = utf8('a');
    expect(outcome(bench, kv.put, { key })).toBe('ok');
    expect(outcome(bench, kv.put, { key, prevKv: true })).toBe(DENIED);
    expect(outcome(bench, kv.deleteRange, { key, prevKv: true })).toBe(DENIED);
    expect(outcome(bench, kv.range, { key })).toBe(DENIED);
    expect(outcome(bench, kv.txn, put('a', true))).toBe(DENIED);
    expect(outcome(bench, kv.deleteRange, { key })).toBe('ok');
  });

  test('requires permission for all keys of a lease', () => {
    const bench = openSecured();
    grant(bench, READWRITE, 'a');
    bench.call(lease.leaseGrant, { id: 5n, ttl: 60n });
    bench.call(kv.put, { key: utf8('b'), lease: 5n });
    const renew = () => {
      const stream = bench.open(lease.leaseKeepAlive);
      stream.send({ id: 5n });
      return stream.ended === undefined ? 'ok' : textOf(stream.ended as StatusError);
    };
    const outcomes = () => [
      outcome(bench, kv.put, { key: utf8('a'), lease: 5n }),
      outcome(bench, lease.leaseTimeToLive, { id: 5n, keys: true }),
      outcome(bench, lease.leaseTimeToLive, { id: 5n }),
      outcome(bench, lease.leaseLeases, {}),
      renew(),
      outcome(bench, lease.leaseRevoke, { id: 5n }),
    ];
    logIn(bench, 'alice');
    expect(outcomes()).toEqual([DENIED, DENIED, 'ok', DENIED, DENIED, DENIED]);
    grant(bench, READWRITE, 'b');
    logIn(bench, 'alice');
    expect(outcomes()).toEqual(['ok', 'ok', 'ok', 'ok', 'ok', 'ok']);
  });

  test('of a watch checks its range, with the reason that the server sends', () => {
    const bench = openSecured();
    grant(bench, READ, 'a', 'c');
    const mayWatch = (key: string, rangeEnd = '') =>
      bench.member.auth.mayWatch(
        { metadata: bench.metadata, endpoint: '', signal: new AbortController().signal },
        utf8(key),
        utf8(rangeEnd),
      );
    bench.metadata = {};
    expect(mayWatch('a')).toEqual(serverError('UserEmpty'));
    bench.metadata = { token: 'x' };
    expect(mayWatch('a')).toEqual(serverError('InvalidAuthToken'));
    logIn(bench, 'alice');
    expect(mayWatch('a', 'c')).toBeUndefined();
    expect(mayWatch('a', 'd')).toEqual(serverError('PermissionDenied'));
  });

  test('follows the check of the key, and checks the token before the server checks the size of the request', () => {
    const bench = openSecured({ maxRequestBytes: 100 });
    const value = new Uint8Array(200);
    expect(outcome(bench, kv.put, {})).toBe(textOf(serverError('EmptyKey')));
    expect(outcome(bench, kv.put, { key: utf8('a'), value })).toBe(textOf(serverError('RequestTooLarge')));
    bench.metadata = { token: 'x' };
    expect(outcome(bench, kv.put, { key: utf8('a'), value })).toBe(textOf(serverError('InvalidAuthToken')));
  });

  test.for([
    ['3.5', 'Unknown: auth: permission denied', 'Unknown: auth: invalid auth token'],
    ['3.6', DENIED, textOf(serverError('InvalidAuthToken'))],
  ] as const)('of maintenance has the messages of etcd %s', ([version, denied, invalid]) => {
    const bench = openSecured({ version });
    logIn(bench, 'alice');
    expect(outcome(bench, maintenance.hashKv, {})).toBe(denied);
    expect(outcome(bench, maintenance.moveLeader, {})).toBe(DENIED);
    bench.metadata = { token: 'x' };
    expect(outcome(bench, maintenance.defragment, {})).toBe(invalid);
  });

  test('of changes is suspended in etcd 3.5 while an alarm is raised', () => {
    const bench = openSecured({ version: '3.5' });
    logIn(bench, 'root');
    bench.member.alarms.add('NOSPACE');
    bench.metadata = {};
    expect(outcome(bench, kv.deleteRange, { key: utf8('a') })).toBe('ok');
    expect(outcome(bench, auth.userList, {})).toBe('ok');
    expect(outcome(bench, kv.range, { key: utf8('a') })).toBe(NO_USER);
    bench.member.alarms.restart();
    expect(outcome(bench, auth.userList, {})).toBe(NO_USER);
  });
});

/** Makes all checks of the permissions for an empty request: when a member receives it, and when it applies it. */
function authorizeAndAdmit(auth: Auth, { path, request }: Method<unknown, unknown>, call: ServerCall): void {
  const caller = auth.authorize(path, request.create(), call);
  auth.admit(path, request.create(), { caller, authRevision: auth.store.revision, index: 0n, isAwaited: true });
}
