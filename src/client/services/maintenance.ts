import {
  checkCan,
  checkChoice,
  checkedLaterAll,
  checkFields,
  checkInt64,
  checkName,
  checkOptions,
  checkUint64,
  concatBytes,
  EtcdError,
  type Int64Like,
  iterate,
  type SignalOption,
} from '../../base/index.js';
import * as wire from '../../gen/etcdserverpb/rpc.js';
import * as maintenanceMethods from '../../gen/methods/maintenance.js';
import { parseEndpoint } from '../../host/index.js';
import { createSha256 } from '../../host/node.js';
import {
  type CallOptions,
  checkCallOptions,
  type Rpc,
  readStream,
  TIME_LIMITS,
  type WithHeader,
  withHeader,
  withHeaderOf,
  withoutDefaultTimeout,
  withSharedLimit,
} from '../../rpc/index.js';

/** The version of a member, the size of its database, and its Raft state. */
export type Status = WithHeader<Omit<wire.StatusResponse, 'header'>>;

/** A problem with a member: its database has reached its quota (`noSpace`), or its data is corrupt (`corrupt`). */
export interface Alarm {
  readonly memberId: bigint;
  readonly alarm: 'noSpace' | 'corrupt';
}

/** Options for a call to one member. The endpoint of the member is a separate argument of the call. */
export type MemberCallOptions = Pick<CallOptions, 'signal' | 'timeoutMs'>;

export const MEMBER_CALL_HINTS = { endpoint: 'pass the endpoint as a separate argument' } as const;

const ALARMS = { noSpace: wire.AlarmType.NOSPACE, corrupt: wire.AlarmType.CORRUPT } as const;
const ALARM = checkedLaterAll('memberId', 'alarm');
const DOWNGRADES = {
  validate: wire.DowngradeAction.VALIDATE,
  enable: wire.DowngradeAction.ENABLE,
  cancel: wire.DowngradeAction.CANCEL,
} as const;

/**
 * Maintenance of the cluster and its members. A method that concerns one member has the argument `endpoint`, which must
 * be one of the client's endpoints. The client does not try another endpoint. Without `timeoutMs`, `defragment`,
 * `hash`, `hashKV` and `snapshot` have no time limit, because they may take a long time on a large database. HTTP/2
 * PINGs still detect a member that no longer responds.
 *
 * A method that fails rejects with an `EtcdError`. The reason is `InvalidInput` for an invalid argument. Otherwise, the
 * reason says why the call failed.
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
    return withHeaderOf(this.#rpc.call(maintenanceMethods.status, {}, callOptions));
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
   * Clears an alarm. Call this method after the cause of the alarm has been removed. Returns the cleared alarms.
   *
   * @example
   * for (const alarm of (await etcd.maintenance.alarms()).alarms) await etcd.maintenance.disarm(alarm);
   */
  async disarm(alarm: Alarm, options?: CallOptions): Promise<WithHeader<{ readonly alarms: readonly Alarm[] }>> {
    checkCallOptions(options, 'maintenance.disarm');
    checkFields(alarm, ALARM, 'alarm');
    const type = checkChoice(ALARMS, alarm.alarm, 'alarm.alarm');
    const memberId = checkUint64(alarm.memberId, 'alarm.memberId');
    return this.#alarm({ action: wire.AlarmAction.DEACTIVATE, memberId, alarm: type }, options);
  }

  /**
   * Defragments the database of a member: the space of deleted and compacted data returns to the file system. During
   * the defragmentation, the member serves no other requests.
   *
   * @example
   * await etcd.maintenance.defragment('http://10.0.0.1:2379');
   */
  async defragment(endpoint: string, options: MemberCallOptions = {}): Promise<WithHeader<object>> {
    const callOptions = slowCall(endpoint, options, 'maintenance.defragment');
    return withHeaderOf(this.#rpc.call(maintenanceMethods.defragment, {}, callOptions));
  }

  /**
   * Returns the CRC-32 of a member's whole database. This method is meant for tests, because the hash may differ
   * between members that have the same keys.
   *
   * @example
   * const { hash } = await etcd.maintenance.hash('http://10.0.0.1:2379');
   */
  async hash(endpoint: string, options: MemberCallOptions = {}): Promise<WithHeader<{ readonly hash: number }>> {
    const callOptions = slowCall(endpoint, options, 'maintenance.hash');
    return withHeaderOf(this.#rpc.call(maintenanceMethods.hash, {}, callOptions));
  }

  /**
   * Returns the CRC-32 of a member's keys up to `revision`. The default, 0n, means the latest revision. For the same
   * revision, members with the same `compactRevision` must return the same hash.
   *
   * @throws EtcdError with reason `Compacted` or `FutureRev` if the member does not have the revision.
   *
   * @example
   * const { header } = await etcd.put('config/size', '10');
   * const { hash } = await etcd.maintenance.hashKV('http://10.0.0.1:2379', header.revision);
   */
  async hashKV(
    endpoint: string,
    revision: Int64Like = 0n,
    options: MemberCallOptions = {},
  ): Promise<WithHeader<{ readonly hash: number; readonly compactRevision: bigint; readonly hashRevision: bigint }>> {
    const callOptions = slowCall(endpoint, options, 'maintenance.hashKV');
    const request = { revision: checkInt64(revision, 'revision') };
    return withHeaderOf(this.#rpc.call(maintenanceMethods.hashKv, request, callOptions));
  }

  /**
   * Reads the database of a member, in the format that `etcdutl snapshot restore` accepts. `timeoutMs` limits the wait
   * for each message from the member, not the whole call.
   *
   * @example
   * await pipeline(etcd.maintenance.snapshot('http://10.0.0.1:2379'), createWriteStream('backup.db'));
   */
  snapshot(endpoint: string, options: MemberCallOptions = {}): Snapshot {
    const callOptions = slowCall(endpoint, options, 'maintenance.snapshot');
    return new Snapshot(
      (signal) => readStream(this.#rpc, maintenanceMethods.snapshot, {}, { ...callOptions, signal }),
      callOptions.signal,
    );
  }

  /**
   * Transfers leadership to the member with the ID `targetId`. Only the current leader can transfer leadership. The
   * option `endpoint` is the endpoint of the leader. Without this option, the client first requests the status of all
   * its endpoints to find the leader.
   *
   * @throws EtcdError with reason `NotLeader` if `endpoint` does not belong to the leader, or if the client does not
   *   find the leader at any of its endpoints.
   *
   * @example
   * const { members } = await etcd.cluster.memberList();
   * if (members[0] !== undefined) await etcd.maintenance.moveLeader(members[0].id);
   */
  async moveLeader(targetId: bigint, options: CallOptions = {}): Promise<WithHeader<object>> {
    checkCallOptions(options, 'maintenance.moveLeader');
    const request = { targetId: checkUint64(targetId, 'targetId') };
    const limits = withSharedLimit(options, this.#rpc.settings.timeoutMs);
    const endpoint = options.endpoint ?? (await this.#findLeader(limits));
    return withHeaderOf(this.#rpc.call(maintenanceMethods.moveLeader, request, { ...limits, endpoint }));
  }

  /**
   * Validates, enables or cancels a downgrade of the cluster to `version`, in the form "major.minor". Requires etcd 3.5
   * or later.
   *
   * @throws EtcdError, for example with reason `InvalidDowngradeTargetVersion` if `version` is not one minor version
   *   below the version of the cluster, or with reason `DowngradeInProcess` if a downgrade is already in progress.
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
    return withHeaderOf(this.#rpc.checkedCall(maintenanceMethods.downgrade, request, options));
  }

  async #findLeader(limits: CallOptions): Promise<string> {
    const endpoints = this.#endpoints();
    const statuses = endpoints.map(async (endpoint) => {
      const status = this.#rpc.call(maintenanceMethods.status, {}, { ...limits, endpoint });
      const { header, leader } = await withHeaderOf(status);
      if (leader === 0n || header.memberId !== leader) throw notLeader([endpoint]);
      return endpoint;
    });
    try {
      // Does not wait for the other endpoints once the leader is found. Waiting for an endpoint that is down would use
      // up the time limit.
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
    const { header, alarms } = await this.#rpc.call(maintenanceMethods.alarm, request, options);
    const named = alarms.map(({ memberId, alarm }): Alarm => {
      return { memberId, alarm: alarm === wire.AlarmType.CORRUPT ? 'corrupt' : 'noSpace' };
    });
    return withHeader(header, { alarms: named });
  }
}

/** @throws EtcdError with reason `InvalidInput` for other options. The endpoint is a separate argument of the call. */
function checkMemberCall(options: MemberCallOptions, what: string): MemberCallOptions {
  checkOptions(options, TIME_LIMITS, what, MEMBER_CALL_HINTS);
  return options;
}

/** Refuses undefined: without an endpoint, the client would choose a member. */
function checkUrl(endpoint: string): string {
  parseEndpoint(endpoint, 'endpoint');
  return endpoint;
}

/** Returns options without a default time limit, because the duration of the call depends on the database's size. */
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
  return new EtcdError(
    `no endpoint answered as the leader: ${endpoints.join(', ')}; add the URL of the leader to the endpoints of the client`,
    {
      code: 'FailedPrecondition',
      reason: 'NotLeader',
      outcome: 'not-sent',
      method: maintenanceMethods.moveLeader.path,
      cause,
    },
  );
}

/** Length in bytes of the SHA-256 digest that follows the database in a snapshot. */
const DIGEST_BYTES = 32;
/**
 * The size of a database is a multiple of this size. So a snapshot ends with a digest if the remainder of its size,
 * divided by this size, is `DIGEST_BYTES`.
 */
const SECTOR_BYTES = 512;

/** A destination for the bytes of a snapshot, such as a `WritableStreamDefaultWriter`. */
export interface SnapshotSink {
  /** Receives the next bytes. If `write` returns a promise, the next call of `write` waits for this promise. */
  write(chunk: Uint8Array): unknown;
}

/**
 * The database of a member, followed by its SHA-256 digest. These are the bytes that `etcdutl snapshot restore`
 * accepts. Read a snapshot only once. The snapshot yields its last bytes only after it has verified the size and the
 * digest.
 *
 * @example
 * let bytes = 0;
 * for await (const chunk of etcd.maintenance.snapshot('http://10.0.0.1:2379')) bytes += chunk.length;
 * console.log(`the snapshot has ${bytes} bytes`);
 */
export class Snapshot implements AsyncIterable<Uint8Array> {
  readonly #read: (signal: AbortSignal) => AsyncGenerator<wire.SnapshotResponse, void>;
  readonly #signal: SignalOption;

  /** @internal */
  constructor(read: (signal: AbortSignal) => AsyncGenerator<wire.SnapshotResponse, void>, signal?: SignalOption) {
    this.#read = read;
    this.#signal = signal;
  }

  /**
   * Yields the bytes of the snapshot in pieces.
   *
   * @throws EtcdError with reason `SnapshotCorrupt` if bytes are missing or differ from the bytes that the member sent.
   */
  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    return iterate(this.#signal, (signal) => verified(this.#read(signal)));
  }

  /**
   * Writes all bytes to a sink. Resolves with the number of bytes. Neither opens nor closes the sink.
   *
   * @throws EtcdError with reason `SnapshotCorrupt` if bytes are missing or differ from the bytes that the member sent,
   *   or with another reason if the call fails. An error that the sink throws is passed on unchanged.
   */
  async writeTo(sink: SnapshotSink): Promise<number> {
    checkCan(sink, 'write', 'sink', 'an object with a method write');
    let size = 0;
    for await (const chunk of this) {
      await sink.write(chunk);
      size += chunk.length;
    }
    return size;
  }
}

/** Yields the bytes of a snapshot in pieces, and the last bytes only after it has verified all of them. */
async function* verified(responses: AsyncIterable<wire.SnapshotResponse>): AsyncGenerator<Uint8Array, void> {
  const hash = createSha256();
  let size = 0;
  let remaining: bigint | undefined;
  let tail: Uint8Array = new Uint8Array(0);
  for await (const { blob, remainingBytes } of responses) {
    // `remainingBytes` does not count the digest, which the member sends when no bytes of the database remain.
    const left = remaining === 0n ? 0n : remaining && remaining - BigInt(blob.length);
    if (left !== undefined && left !== remainingBytes) {
      throw corrupt(`a piece is missing before byte ${size}`);
    }
    remaining = remainingBytes;
    size += blob.length;
    const received = concatBytes(tail, blob);
    const ready = received.subarray(0, Math.max(0, received.length - DIGEST_BYTES));
    // Copies the tail, because the consumer may transfer the memory of `ready` to another thread.
    tail = received.slice(ready.length);
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

function corrupt(why: string): EtcdError {
  return new EtcdError(`the snapshot is corrupt: ${why}`, {
    code: 'DataLoss',
    reason: 'SnapshotCorrupt',
    outcome: 'unknown',
    method: maintenanceMethods.snapshot.path,
  });
}
