import { readStream } from '../channel/read-stream.js';
import { type CallOptions, checkCallOptions, type Rpc, unhurried } from '../channel/rpc.js';
import { EtcdError } from '../errors/etcd-error.js';
import { AlarmAction, AlarmType, DowngradeAction, type StatusResponse } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import { parseEndpoint } from '../host/endpoint.js';
import { type WithHeader, withHeader } from '../kv/results.js';
import { checkChoice, checkInt64, checkName, checkUint64 } from '../runtime/arguments.js';
import { Snapshot } from './snapshot.js';

/** A member's version, database and raft state. */
export type Status = WithHeader<Omit<StatusResponse, 'header'>>;

/** Something is wrong with a member: it is out of space, or its data are corrupt. */
export interface Alarm {
  readonly memberId: bigint;
  readonly alarm: 'noSpace' | 'corrupt';
}

const ALARMS = { noSpace: AlarmType.NOSPACE, corrupt: AlarmType.CORRUPT } as const;
const DOWNGRADES = {
  validate: DowngradeAction.VALIDATE,
  enable: DowngradeAction.ENABLE,
  cancel: DowngradeAction.CANCEL,
} as const;

/**
 * Care of the cluster and of its members. What concerns one member names it: `endpoint` is one of the client's
 * endpoints, and no other is tried. Defragment, hashes and snapshot wait, without
 * `timeoutMs`, as long as a large database takes; pings tell meanwhile whether the member is there.
 */
export class Maintenance {
  readonly #rpc: Rpc;
  readonly #endpoints: () => readonly string[];

  constructor(rpc: Rpc, endpoints: () => readonly string[]) {
    this.#rpc = rpc;
    this.#endpoints = endpoints;
  }

  /** Version, size of the database, leader and progress of the member at an endpoint. */
  async status(endpoint: string, options: CallOptions = {}): Promise<Status> {
    checkCallOptions(options, 'maintenance.status');
    const { header, ...status } = await this.#rpc.call(
      methods.maintenance.status,
      {},
      { ...options, endpoint: checkUrl(endpoint) },
    );
    return withHeader(header, status);
  }

  /** The alarms that are raised, of all members. */
  async alarms(options?: CallOptions): Promise<WithHeader<{ readonly alarms: readonly Alarm[] }>> {
    checkCallOptions(options, 'maintenance.alarms');
    return this.#alarm({ action: AlarmAction.GET }, options);
  }

  /** Clears an alarm, as one of `alarms()`, when its cause is gone. */
  async disarm(alarm: Alarm, options?: CallOptions): Promise<WithHeader<{ readonly alarms: readonly Alarm[] }>> {
    checkCallOptions(options, 'maintenance.disarm');
    const type = checkChoice(ALARMS, alarm.alarm, 'alarm.alarm');
    const memberId = checkUint64(alarm.memberId, 'alarm.memberId');
    return this.#alarm({ action: AlarmAction.DEACTIVATE, memberId, alarm: type }, options);
  }

  /** Gives the space of deleted and compacted data back to the file system. The member answers nobody meanwhile. */
  async defragment(endpoint: string, options: CallOptions = {}): Promise<WithHeader<object>> {
    checkCallOptions(options, 'maintenance.defragment');
    const { header } = await this.#rpc.call(
      methods.maintenance.defragment,
      {},
      { ...unhurried(options), endpoint: checkUrl(endpoint) },
    );
    return withHeader(header, {});
  }

  /** CRC-32 of a member's whole database; for tests, for it differs between members that agree. */
  async hash(endpoint: string, options: CallOptions = {}): Promise<WithHeader<{ readonly hash: number }>> {
    checkCallOptions(options, 'maintenance.hash');
    const { header, hash } = await this.#rpc.call(
      methods.maintenance.hash,
      {},
      { ...unhurried(options), endpoint: checkUrl(endpoint) },
    );
    return withHeader(header, { hash });
  }

  /** CRC-32 of a member's keys up to `revision` (0n: the newest). Members with the same `compactRevision` must agree. */
  async hashKV(
    endpoint: string,
    revision = 0n,
    options: CallOptions = {},
  ): Promise<WithHeader<{ readonly hash: number; readonly compactRevision: bigint; readonly hashRevision: bigint }>> {
    checkCallOptions(options, 'maintenance.hashKV');
    const request = { revision: checkInt64(revision, 'revision') };
    const callOptions = { ...unhurried(options), endpoint: checkUrl(endpoint) };
    const { header, ...hashes } = await this.#rpc.call(methods.maintenance.hashKv, request, callOptions);
    return withHeader(header, hashes);
  }

  /** A member's database. `timeoutMs` holds for each piece. */
  snapshot(endpoint: string, options: CallOptions = {}): Snapshot {
    checkCallOptions(options, 'maintenance.snapshot');
    return new Snapshot(
      readStream(this.#rpc, methods.maintenance.snapshot, {}, { ...unhurried(options), endpoint: checkUrl(endpoint) }),
    );
  }

  /**
   * Hands leadership to a member. Only the leader does that: of the client's endpoints the leader's is found by asking
   * each for its status.
   *
   * @throws EtcdError, reason `NotLeader`, where none of them is the leader.
   */
  async moveLeader(targetId: bigint, options: CallOptions = {}): Promise<WithHeader<object>> {
    checkCallOptions(options, 'maintenance.moveLeader');
    const request = { targetId: checkUint64(targetId, 'targetId') };
    const left = this.#rpc.within(options);
    const endpoint = options.endpoint ?? (await this.#leader(left));
    const { header } = await this.#rpc.call(methods.maintenance.moveLeader, request, { ...left(), endpoint });
    return withHeader(header, {});
  }

  /** Checks, starts or calls off a downgrade to `version`, "major.minor" (etcd 3.5 and later). */
  async downgrade(
    action: 'validate' | 'enable' | 'cancel',
    version: string,
    options?: CallOptions,
  ): Promise<WithHeader<{ readonly version: string }>> {
    const target = action === 'cancel' ? version : checkName(version, 'version');
    const request = { action: checkChoice(DOWNGRADES, action, 'action'), version: target };
    const answer = await this.#rpc.checkedCall(methods.maintenance.downgrade, request, options);
    return withHeader(answer.header, { version: answer.version });
  }

  async #leader(left: () => CallOptions): Promise<string> {
    const endpoints = this.#endpoints();
    const asked = endpoints.map(async (endpoint) => {
      const { header, leader } = await this.status(endpoint, left());
      if (leader === 0n || header.memberId !== leader) throw notLeader([endpoint]);
      return endpoint;
    });
    try {
      // The first to say so: one that is dead would take all the time there is.
      return await Promise.any(asked);
    } catch (cause) {
      const { errors } = cause as AggregateError;
      throw errors.find(endsAll) ?? notLeader(endpoints, cause);
    }
  }

  async #alarm(
    request: { readonly action: AlarmAction; readonly memberId?: bigint; readonly alarm?: AlarmType },
    options?: CallOptions,
  ): Promise<WithHeader<{ readonly alarms: readonly Alarm[] }>> {
    const { header, alarms } = await this.#rpc.call(methods.maintenance.alarm, request, options);
    const named = alarms.map(({ memberId, alarm }): Alarm => {
      return { memberId, alarm: alarm === AlarmType.CORRUPT ? 'corrupt' : 'noSpace' };
    });
    return withHeader(header, { alarms: named });
  }
}

/** Left out it would be whichever member works. */
function checkUrl(endpoint: string): string {
  return parseEndpoint(endpoint, 'endpoint').url;
}

/** Not the word of one endpoint: the caller wants no answer any more. */
function endsAll(error: unknown): boolean {
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
