import { NO_BYTES } from '../../base/index.js';
import { PermissionType } from '../../gen/authpb/auth.js';
import {
  AlarmAction,
  type DeleteRangeRequest,
  type PutRequest,
  type RequestOp,
  type TxnRequest,
} from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import type { Method } from '../../wire/index.js';
import type { Alarms } from './alarms.js';
import { type AuthSnapshot, AuthStore } from './auth-store.js';
import { Tokens } from './auth-tokens.js';
import type { AppliedEntry, Caller } from './command.js';
import { ALL_KEYS } from './key-range.js';
import { type Router, type ServerCall, StatusError, serverError, type UnaryHandler } from './service.js';
import type { MemberSettings, MemoryVersion } from './settings.js';
import type { Store } from './store.js';
import { isReadOnly } from './txn.js';

/** Checks whether the caller may make the request. `authorize` calls it only while authentication is enabled. */
type Rule<Request> = (caller: Caller, request: Request) => void;

const BEARER = 'Bearer ';
/** The start of the paths of the service Auth. etcd checks no revision of the users for its methods. */
const AUTH_SERVICE = '/etcdserverpb.Auth/';
const NO_LEASE = 0n;

/** The messages of etcd's package `auth`, which etcd 3.5 sends for some methods instead of the public messages. */
const INTERNAL_MESSAGES: ReadonlyMap<string, string> = new Map([
  [serverError('UserEmpty').message, 'auth: user name is empty'],
  [serverError('PermissionDenied').message, 'auth: permission denied'],
  [serverError('InvalidAuthToken').message, 'auth: invalid auth token'],
]);

/** The methods for which etcd 3.5 sends the messages of its package `auth`: `etcdserver/api/v3rpc/maintenance.go`. */
const WITH_INTERNAL_MESSAGES: readonly string[] = [
  methods.maintenance.defragment.path,
  methods.maintenance.snapshot.path,
  methods.maintenance.hash.path,
  methods.maintenance.hashKv.path,
];

/**
 * Finds out which user makes a call, and whether this user may make it.
 *
 * etcd checks a call in this order: the fields of the request, the token, the size of the request and the alarms, the
 * permissions. Therefore a handler first validates the request, and then calls `authorize`. A handler that proposes a
 * write calls `admit` when it applies the write.
 */
export class Auth {
  readonly store: AuthStore = new AuthStore();
  readonly tokens: Tokens;
  readonly #keys: Store;
  readonly #alarms: Alarms;
  readonly #version: MemoryVersion;
  /** The rules that a member checks when it receives a request, by the path of the method. */
  readonly #received = new Map<string, Rule<unknown>>();
  /** The rules that a member checks when it applies a request. */
  readonly #applied = new Map<string, Rule<unknown>>();

  /** `keys` is the store of the member. The permission to use a lease depends on the keys that are attached to it. */
  constructor(settings: MemberSettings, keys: Store, alarms: Alarms) {
    this.#keys = keys;
    this.#alarms = alarms;
    this.#version = settings.version;
    this.tokens = new Tokens(settings);
    this.#addRules();
  }

  /**
   * Returns the user whose token the call contains. The token is the metadata value of `token`, or else of
   * `authorization`.
   *
   * @throws StatusError with reason `InvalidAuthToken` if the call has a token that is not valid
   */
  caller({ metadata }: ServerCall): Caller {
    const { token, authorization } = metadata;
    const header = token ?? authorization;
    if (!this.store.enabled || header === undefined) return undefined;
    const user = this.tokens.userOf(header.startsWith(BEARER) ? header.slice(BEARER.length) : header);
    if (user === undefined) throw serverError('InvalidAuthToken');
    return user;
  }

  /**
   * Checks the token of a call, and what etcd checks of its user when it receives the request. Returns the user. `path`
   * is the path of the method, such as `/etcdserverpb.KV/Put`. The service Lease calls this method for each request of
   * a keepalive stream. This method checks no permission for `Watch` (see `mayWatch`), for `Authenticate` and for the
   * service Health. It also checks none for the services Lock and Election, because their handlers call the methods of
   * KV and Lease with the token of the caller.
   *
   * @throws StatusError with reason `InvalidAuthToken`, `UserEmpty` or `PermissionDenied`.
   */
  authorize(path: string, request: unknown, call: ServerCall): Caller {
    const received = this.#received.get(path);
    try {
      const caller = this.caller(call);
      if (this.store.enabled) received?.(caller, request);
      return caller;
    } catch (error) {
      const message = error instanceof StatusError ? INTERNAL_MESSAGES.get(error.message) : undefined;
      if (message === undefined || this.#version !== '3.5' || !WITH_INTERNAL_MESSAGES.includes(path)) throw error;
      throw new StatusError('Unknown', message);
    }
  }

  /** Registers a unary method that calls `authorize` before everything else. */
  serve<Request, Response>(
    router: Router,
    method: Method<Request, Response, 'unary'>,
    handler: UnaryHandler<Request, Response>,
  ): void {
    router.unary(method, (request, call) => {
      this.authorize(method.path, request, call);
      return handler(request, call);
    });
  }

  /**
   * Checks what etcd checks of the user when it applies a request. The caller of this method is a write in raft's log.
   *
   * @throws StatusError with reason `UserEmpty`, `PermissionDenied`, or `AuthOldRevision` if the users have changed
   *   since the member that received the request checked the token.
   */
  admit(path: string, request: unknown, { caller, authRevision }: AppliedEntry): void {
    const applied = this.#applied.get(path);
    if (!this.store.enabled || this.#alarms.permissionsSuspended || applied === undefined) return;
    const isOld = caller !== undefined && authRevision < this.store.revision;
    if (isOld && !path.startsWith(AUTH_SERVICE)) throw serverError('AuthOldRevision');
    applied(caller, request);
  }

  /**
   * Returns the error if the caller may not watch the range, or undefined. The server sends the code and the message as
   * the reason of the cancellation: `rpc error: code = PermissionDenied desc = etcdserver: permission denied`.
   */
  mayWatch(call: ServerCall, key: Uint8Array, rangeEnd: Uint8Array): StatusError | undefined {
    try {
      const caller = this.caller(call);
      if (this.store.enabled) this.#mayRead(caller, key, rangeEnd);
    } catch (error) {
      if (error instanceof StatusError) return error;
      throw error;
    }
    return undefined;
  }

  /** Replaces the users and roles by those of a backup. All tokens become invalid. */
  restore(backup: AuthSnapshot): void {
    this.store.restore(backup);
    this.tokens.reset();
  }

  /**
   * Adds the rules. etcd checks a rule either when it receives a request, or when it applies the request. A method can
   * have a rule of each kind.
   */
  #addRules(): void {
    const receive = <Request, Response>({ path }: Method<Request, Response>, rule: Rule<Request>): void =>
      void this.#received.set(path, rule as Rule<unknown>);
    const apply = <Request, Response>({ path }: Method<Request, Response>, rule: Rule<Request>): void =>
      void this.#applied.set(path, rule as Rule<unknown>);
    const anyUser: Rule<unknown> = (caller) => void requireUser(caller);
    const onlyRoot: Rule<unknown> = (caller) => this.#requireRoot(caller);
    const { kv, lease, cluster, maintenance, auth } = methods;

    receive(kv.range, (caller, { key, rangeEnd }) => this.#mayRead(caller, key, rangeEnd));
    receive(kv.rangeStream, (caller, { key, rangeEnd }) => this.#mayRead(caller, key, rangeEnd));
    receive(kv.txn, (caller, txn) => {
      if (isReadOnly(txn)) this.#mayRun(caller, txn);
    });
    receive(kv.compact, onlyRoot);
    apply(kv.put, (caller, put) => this.#mayPut(caller, put));
    apply(kv.deleteRange, (caller, deletion) => this.#mayDelete(caller, deletion));
    apply(kv.txn, (caller, txn) => this.#mayRun(caller, txn));

    receive(lease.leaseGrant, anyUser);
    receive(lease.leaseRevoke, anyUser);
    receive(lease.leaseKeepAlive, (caller, { id }) => this.#mayUseLease(caller, id, PermissionType.WRITE));
    receive(lease.leaseTimeToLive, (caller, { id, keys }) => {
      requireUser(caller);
      if (keys) this.#mayUseLease(caller, id, PermissionType.READ);
    });
    receive(lease.leaseLeases, (caller) => {
      const leased = this.#keys.range(ALL_KEYS).filter((kv) => kv.lease !== NO_LEASE);
      const keys = leased.map(({ key }) => key);
      this.#mayAccessAll(caller, PermissionType.READ, keys);
    });
    apply(lease.leaseRevoke, (caller, { id }) => this.#mayUseLease(caller, id, PermissionType.WRITE));

    for (const method of Object.values(cluster)) receive<unknown, unknown>(method, onlyRoot);
    receive(cluster.memberList, anyUser);

    for (const method of Object.values(maintenance)) receive<unknown, unknown>(method, onlyRoot);
    receive(maintenance.status, anyUser);
    receive(maintenance.alarm, (caller, { action }) => {
      if (action === AlarmAction.GET) requireUser(caller);
      else this.#requireRoot(caller);
    });

    for (const method of Object.values(auth)) apply<unknown, unknown>(method, onlyRoot);
    apply(auth.userGet, (caller, { name }) => {
      if (name !== (caller ?? '')) this.#requireRoot(caller);
    });
    apply(auth.roleGet, (caller, { role }) => {
      if (caller === undefined || !this.store.hasRole(caller, role)) this.#requireRoot(caller);
    });
    // etcd 3.7 reports the status to everyone: `needAdminPermission` in `etcdserver/apply/auth.go`.
    if (this.#version === '3.7') apply(auth.authStatus, () => {});
    this.#applied.delete(auth.authenticate.path);
  }

  #requireRoot(caller: Caller): void {
    if (!this.store.isRoot(requireUser(caller))) throw serverError('PermissionDenied');
  }

  #mayRead(caller: Caller, key: Uint8Array, rangeEnd: Uint8Array): void {
    this.#mayAccess(caller, PermissionType.READ, key, rangeEnd);
  }

  #mayAccess(caller: Caller, type: PermissionType, key: Uint8Array, rangeEnd: Uint8Array): void {
    if (!this.store.permits(requireUser(caller), type, key, rangeEnd)) throw serverError('PermissionDenied');
  }

  /**
   * A put also needs permission for all keys of its lease, because the user could delete these keys by a revocation of
   * the lease.
   */
  #mayPut(caller: Caller, { key, lease, prevKv }: PutRequest): void {
    this.#mayAccess(caller, PermissionType.WRITE, key, NO_BYTES);
    this.#mayUseLease(caller, lease, PermissionType.WRITE);
    if (prevKv) this.#mayRead(caller, key, NO_BYTES);
  }

  #mayDelete(caller: Caller, { key, rangeEnd, prevKv }: DeleteRangeRequest): void {
    this.#mayAccess(caller, PermissionType.WRITE, key, rangeEnd);
    if (prevKv) this.#mayRead(caller, key, rangeEnd);
  }

  /** The caller needs permission for both branches of a transaction. */
  #mayRun(caller: Caller, { compare, success, failure }: TxnRequest): void {
    for (const { key, rangeEnd } of compare) this.#mayRead(caller, key, rangeEnd);
    for (const { request } of [...success, ...failure]) this.#mayRunOperation(caller, request);
  }

  #mayRunOperation(caller: Caller, request: RequestOp['request']): void {
    switch (request?.case) {
      case 'requestRange':
        this.#mayRead(caller, request.value.key, request.value.rangeEnd);
        break;
      case 'requestPut':
        this.#mayPut(caller, request.value);
        break;
      case 'requestDeleteRange':
        this.#mayDelete(caller, request.value);
        break;
      case 'requestTxn':
        this.#mayRun(caller, request.value);
        break;
    }
  }

  #mayUseLease(caller: Caller, lease: bigint, type: PermissionType): void {
    const keys = this.#keys.keysOf(lease).flatMap((id) => this.#keys.get(id)?.key ?? []);
    this.#mayAccessAll(caller, type, keys);
  }

  #mayAccessAll(caller: Caller, type: PermissionType, keys: readonly Uint8Array[]): void {
    requireUser(caller);
    for (const key of keys) this.#mayAccess(caller, type, key, NO_BYTES);
  }
}

function requireUser(caller: Caller): string {
  if (caller === undefined) throw serverError('UserEmpty');
  return caller;
}
