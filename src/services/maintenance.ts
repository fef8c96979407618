import { type CallOptions, checkCallOptions, type Rpc, withoutDefaultTimeout } from '../channel/rpc.js';
import { readStream } from '../channel/streams.js';
import { EtcdError } from '../errors/etcd-error.js';
import * as wire from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import { parseEndpoint } from '../host/endpoint.js';
import { createSha256 } from '../host/node.js';
import { type WithHeader, withHeader, withHeaderOf } from '../kv/requests.js';
import { checkChoice, checkInt64, checkName, checkOptions, checkUint64 } from '../runtime/arguments.js';
import { concatBytes } from '../runtime/bytes.js';

/** Version, database and Raft state of a member. */
export type Status = WithHeader<Omit<wire.StatusResponse, 'header'>>;

/** A problem of a member: its database has reached its quota (`noSpace`), or its data are corrupt. */
export interface Alarm {
  readonly memberId: bigint;
  readonly alarm: 'noSpace' | 'corrupt';
}

/** Options of a call to the member that another argument names. */
export interface MemberCallOptions extends Pick<CallOptions, 'signal' | 'timeoutMs'> {
  /** Not allowed here, because the endpoint is an argument of the call itself. */
  readonly endpoint?: undefined;
}

const MEMBER_CALL_OPTIONS = { signal: true, timeoutMs: true } as const;
const MEMBER_CALL_HINTS = { endpoint: 'the endpoint is an argument of its own' } as const;

const ALARMS = { noSpace: wire.AlarmType.NOSPACE, corrupt: wire.AlarmType.CORRUPT } as const;
const DOWNGRADES = {
  validate: wire.DowngradeAction.VALIDATE,
  enable: wire.DowngradeAction.ENABLE,
  cancel: wire.DowngradeAction.CANCEL,
} as const;

/**
 * Maintenance of the cluster and of its members. A method that concerns one member takes `endpoint`, which is one of
 * the client's endpoints; the client does not try another one. `defragment`, `hash`, `hashKV` and `snapshot` have no
 * time limit without `timeoutMs`, because they take long on a large database. HTTP/2 PINGs still detect a member that
 * is gone.
 *
 * Every method throws an `EtcdError`: reason `InvalidInput` for a bad argument, otherwise the reason that the
 * connection or the server gives.
 *
 * @example
 * for (const endpoint of etcd.endpoints) console.log((await etcd.maintenance.status(endpoint)).version);
 */
export class Maintenance {
  readonly #rpc: Rpc;
  readonly #endpoints: () => readonly string[];

  /** @internal */
  constructor(rpc: Rpc, endpoints: () => readonly string[]) {
    this.#rpc = rpc;
    this.#endpoints = endpoints;
  }

  /**
   * Returns the version of a member, the size of its database, its leader and its Raft state.
   *
   * @example
   * const { version, dbSize, leader } = await etcd.maintenance.status('http://10.0.0.1:2379');
   */
  async status(endpoint: string, options: MemberCallOptions = {}): Promise<Status> {
    const callOptions = { ...checkMemberCall(options, 'maintenance.status'), endpoint: checkUrl(endpoint) };
    return withHeaderOf(this.#rpc.call(methods.maintenance.status, {}, callOptions));
  }

  /**
   * Returns the alarms of all members.
   *
   * @example
   * const { alarms } = await etcd.maintenance.alarms();
   */
  async alarms(options?: CallOptions): Promise<WithHeader<{ readonly alarms: readonly Alarm[] }>> {
    checkCallOptions(options, 'maintenance.alarms');
    return this.#alarm({ action: wire.AlarmAction.GET }, options);
  }

  /**
   * Clears an alarm. Call this when the cause of the alarm is gone. Returns the alarms that it cleared.
   *
   * @example
   * for (const alarm of (await etcd.maintenance.alarms()).alarms) await etcd.maintenance.disarm(alarm);
   */
  async disarm(alarm: Alarm, options?: CallOptions): Promise<WithHeader<{ readonly alarms: readonly Alarm[] }>> {
    checkCallOptions(options, 'maintenance.disarm');
    const type = checkChoice(ALARMS, alarm.alarm, 'alarm.alarm');
    const memberId = checkUint64(alarm.memberId, 'alarm.memberId');
    return this.#alarm({ action: wire.AlarmAction.DEACTIVATE, memberId, alarm: type }, options);
  }

  /**
   * Releases the space of deleted and compacted data to the file system. The member serves no other request meanwhile.
   *
   * @example
   * await etcd.maintenance.defragment('http://10.0.0.1:2379');
   */
  async defragment(endpoint: string, options: MemberCallOptions = {}): Promise<WithHeader<object>> {
    const callOptions = slowCall(endpoint, options, 'maintenance.defragment');
    return withHeaderOf(this.#rpc.call(methods.maintenance.defragment, {}, callOptions));
  }

  /**
   * Returns the CRC-32 of the whole database of a member. It is meant for tests, because the hash may differ
   * between members that have the same keys.
   *
   * @example
   * const { hash } = await etcd.maintenance.hash('http://10.0.0.1:2379');
   */
  async hash(endpoint: string, options: MemberCallOptions = {}): Promise<WithHeader<{ readonly hash: number }>> {
    const callOptions = slowCall(endpoint, options, 'maintenance.hash');
    return withHeaderOf(this.#rpc.call(methods.maintenance.hash, {}, callOptions));
  }

  /**
   * Returns the CRC-32 of the keys of a member up to `revision`; 0n, the default, means the latest revision. Members
   * with the same `compactRevision` must have the same hash.
   *
   * @throws EtcdError with reason `Compacted` or `FutureRev`.
   *
   * @example
   * const { header } = await etcd.put('config/size', '10');
   * const { hash } = await etcd.maintenance.hashKV('http://10.0.0.1:2379', header.revision);
   */
  async hashKV(
    endpoint: string,
    revision = 0n,
    options: MemberCallOptions = {},
  ): Promise<WithHeader<{ readonly hash: number; readonly compactRevision: bigint; readonly hashRevision: bigint }>> {
    const callOptions = slowCall(endpoint, options, 'maintenance.hashKV');
    const request = { revision: checkInt64(revision, 'revision') };
    return withHeaderOf(this.#rpc.call(methods.maintenance.hashKv, request, callOptions));
  }

  /**
   * Reads the database of a member, in the format of `etcdutl snapshot restore`. `timeoutMs` applies to each message.
   *
   * @example
   * await pipeline(etcd.maintenance.snapshot('http://10.0.0.1:2379'), createWriteStream('backup.db'));
   */
  snapshot(endpoint: string, options: MemberCallOptions = {}): Snapshot {
    const callOptions = slowCall(endpoint, options, 'maintenance.snapshot');
    return new Snapshot(readStream(this.#rpc, methods.maintenance.snapshot, {}, callOptions));
  }

  /**
   * Transfers leadership to a member. Only the leader can do that. Without `endpoint` the client asks each of its
   * endpoints for its status to find the leader.
   *
   * @throws EtcdError with reason `NotLeader` when none of the endpoints is the leader's.
   *
   * @example
   * const { members } = await etcd.cluster.memberList();
   * if (members[0] !== undefined) await etcd.maintenance.moveLeader(members[0].id);
   */
  async moveLeader(targetId: bigint, options: CallOptions = {}): Promise<WithHeader<object>> {
    checkCallOptions(options, 'maintenance.moveLeader');
    const request = { targetId: checkUint64(targetId, 'targetId') };
    const remaining = this.#rpc.sharedTimeout(options);
    const endpoint = options.endpoint ?? (await this.#findLeader(remaining));
    return withHeaderOf(this.#rpc.call(methods.maintenance.moveLeader, request, { ...remaining(), endpoint }));
  }

  /**
   * Validates, enables or cancels a downgrade of the cluster to `version`, "major.minor" (etcd 3.5 and later).
   *
   * @throws EtcdError, for example with reason `InvalidDowngradeTargetVersion` or `DowngradeInProcess`.
   *
   * @example
   * await etcd.maintenance.downgrade('validate', '3.5');
   */
  async downgrade(
    action: 'validate' | 'enable' | 'cancel',
    version: string,
    options?: CallOptions,
  ): Promise<WithHeader<{ readonly version: string }>> {
    const target = action === 'cancel' ? version : checkName(version, 'version');
    const request = { action: checkChoice(DOWNGRADES, action, 'action'), version: target };
    return withHeaderOf(this.#rpc.checkedCall(methods.maintenance.downgrade, request, options));
  }

  async #findLeader(remaining: () => CallOptions): Promise<string> {
    const endpoints = this.#endpoints();
    const statuses = endpoints.map(async (endpoint) => {
      const { signal, timeoutMs } = remaining();
      const { header, leader } = await this.status(endpoint, { signal, timeoutMs });
      if (leader === 0n || header.memberId !== leader) throw notLeader([endpoint]);
      return endpoint;
    });
    try {
      // Stop at the first endpoint that is the leader: waiting for one that is down would use up the time limit.
      return await Promise.any(statuses);
    } catch (cause) {
      const { errors } = cause as AggregateError;
      throw errors.find(isCanceled) ?? notLeader(endpoints, cause);
    }
  }

  async #alarm(
    request: { readonly action: wire.AlarmAction; readonly memberId?: bigint; readonly alarm?: wire.AlarmType },
    options?: CallOptions,
  ): Promise<WithHeader<{ readonly alarms: readonly Alarm[] }>> {
    const { header, alarms } = await this.#rpc.call(methods.maintenance.alarm, request, options);
    const named = alarms.map(({ memberId, alarm }): Alarm => {
      return { memberId, alarm: alarm === wire.AlarmType.CORRUPT ? 'corrupt' : 'noSpace' };
    });
    return withHeader(header, { alarms: named });
  }
}

/**
 * Refuses an endpoint in the options, because the call has one as its argument.
 *
 * @throws EtcdError with reason `InvalidInput`.
 */
export function checkMemberCall(options: MemberCallOptions, what: string): MemberCallOptions {
  checkOptions(options, MEMBER_CALL_OPTIONS, what, MEMBER_CALL_HINTS);
  return options;
}

/** Returns the URL of the endpoint. Refuses undefined, because the client would then choose a member. */
function checkUrl(endpoint: string): string {
  return parseEndpoint(endpoint, 'endpoint').url;
}

/** Options of a call that takes as long as the database of the member needs. */
function slowCall(
  endpoint: string,
  options: MemberCallOptions,
  what: string,
): CallOptions & { readonly timeoutMs: number } {
  return { ...withoutDefaultTimeout(checkMemberCall(options, what)), endpoint: checkUrl(endpoint) };
}

/** Whether the error ends the whole call, rather than only the status call to one endpoint. */
function isCanceled(error: unknown): boolean {
  return error instanceof EtcdError && (error.reason === 'Canceled' || error.reason === 'ClientClosed');
}

function notLeader(endpoints: readonly string[], cause?: unknown): EtcdError {
  return new EtcdError(`none of the client's endpoints is the leader: ${endpoints.join(', ')}`, {
    code: 'FailedPrecondition',
    reason: 'NotLeader',
    outcome: 'not-sent',
    method: methods.maintenance.moveLeader.path,
    cause,
  });
}

/** Length of the SHA-256 digest that follows the database. */
const DIGEST_BYTES = 32;
/** The size of the database file is a multiple of this, so a remainder of `DIGEST_BYTES` is the digest. */
const SECTOR_BYTES = 512;

/** A destination of bytes, such as a `WritableStreamDefaultWriter`. */
export interface SnapshotSink {
  /** Takes the next bytes. The snapshot waits for the returned promise before it passes more bytes. */
  write(chunk: Uint8Array): unknown;
}

/**
 * The database of a member, followed by its SHA-256: the bytes that `etcdutl snapshot restore` takes. Read it only
 * once. It yields the last bytes only after it has verified the size and the digest.
 *
 * @example
 * for await (const chunk of etcd.maintenance.snapshot('http://10.0.0.1:2379')) process.stdout.write(chunk);
 */
export class Snapshot implements AsyncIterable<Uint8Array> {
  readonly #responses: AsyncGenerator<wire.SnapshotResponse, void>;

  /** @internal */
  constructor(responses: AsyncGenerator<wire.SnapshotResponse, void>) {
    this.#responses = responses;
  }

  /**
   * @throws EtcdError with reason `SnapshotCorrupt` when bytes are missing or differ from those that the member sent.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    const hash = createSha256();
    let size = 0;
    let remaining: bigint | undefined;
    let tail: Uint8Array = new Uint8Array(0);
    for await (const { blob, remainingBytes } of this.#responses) {
      // The member does not count the digest, which follows when no bytes of the database remain.
      const left = remaining === 0n ? 0n : remaining && remaining - BigInt(blob.length);
      if (left !== undefined && left !== remainingBytes) {
        throw corrupt(`a piece is missing before byte ${size}`);
      }
      remaining = remainingBytes;
      size += blob.length;
      const held = concatBytes(tail, blob);
      const ready = held.subarray(0, Math.max(0, held.length - DIGEST_BYTES));
      // Copy the tail, because the consumer may transfer the memory of the chunk.
      tail = held.slice(ready.length);
      hash.update(ready);
      if (ready.length > 0) yield ready;
    }
    if (remaining !== undefined && remaining !== 0n) throw corrupt(`it ended ${remaining} bytes early`);
    if (size <= DIGEST_BYTES || size % SECTOR_BYTES !== DIGEST_BYTES)
      throw corrupt(`its size of ${size} bytes does not include a digest`);
    const digest = hash.digest();
    if (tail.some((byte, index) => byte !== digest[index]))
      throw corrupt('its SHA-256 differs from the one that the member sent');
    yield tail;
  }

  /**
   * Writes all bytes to a sink and returns the number of bytes. Neither opens nor closes the sink.
   *
   * @throws EtcdError, for example with reason `SnapshotCorrupt`, or the error of the sink.
   */
  async writeTo(sink: SnapshotSink): Promise<number> {
    let size = 0;
    for await (const chunk of this) {
      await sink.write(chunk);
      size += chunk.length;
    }
    return size;
  }
}

function corrupt(why: string): EtcdError {
  return new EtcdError(`the snapshot is corrupt: ${why}`, {
    code: 'DataLoss',
    reason: 'SnapshotCorrupt',
    outcome: 'unknown',
    method: methods.maintenance.snapshot.path,
  });
}
