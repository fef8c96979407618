import { AlarmAction, type AlarmMember, type AlarmRequest, AlarmType } from '../../gen/etcdserverpb/rpc.js';
import type { MemoryVersion } from './settings.js';

/**
 * The kinds of alarms that have an effect. With `NOSPACE`, the server refuses puts and new leases. With `CORRUPT`, it
 * refuses writes of keys, compactions, new leases and the revocation of leases.
 */
type AlarmKind = 'NOSPACE' | 'CORRUPT';
const KINDS: readonly AlarmKind[] = ['NOSPACE', 'CORRUPT'];

/** The alarms of a cluster. An alarm names a member, but every alarm affects the whole cluster. */
export class Alarms {
  readonly #memberId: bigint;
  readonly #is35: boolean;
  /** The raised alarms, in the order in which they were raised. */
  #raised: AlarmMember[] = [];
  /** The kinds of alarms that are in effect. */
  #effective: ReadonlySet<AlarmKind> = new Set();
  #permissionsSuspended = false;

  /** @param memberId the ID of the member for which `add` raises alarms */
  constructor(memberId: bigint, version: MemoryVersion) {
    this.#memberId = memberId;
    this.#is35 = version === '3.5';
  }

  /**
   * Whether an alarm of this kind is in effect.
   *
   * In etcd 3.5, at most one kind of alarm is in effect until the server restarts: the first alarm of a kind ends the
   * effect of the other kind. When the last alarm of one kind is cleared, no alarm is in effect. See `Alarm` in
   * `etcdserver/apply.go` of etcd 3.5.
   */
  isInEffect(kind: AlarmKind): boolean {
    return this.#effective.has(kind);
  }

  /**
   * Whether the server checks no permissions when it applies requests.
   *
   * This is a defect of etcd 3.5: from the time when an alarm is raised until it is cleared or the server restarts,
   * `Alarm` in `etcdserver/apply.go` replaces the applier that checks the permissions. etcd 3.6 has corrected the
   * defect in `etcdserver/apply/uber_applier.go`.
   */
  get permissionsSuspended(): boolean {
    return this.#permissionsSuspended;
  }

  /** Raises an alarm for the member itself. */
  add(kind: AlarmKind): void {
    this.raise(this.#memberId, AlarmType[kind]);
  }

  /** Carries out an Alarm request. Returns the alarms of its response. */
  change({ action, memberId, alarm }: AlarmRequest): AlarmMember[] {
    switch (action) {
      case AlarmAction.GET:
        return this.list(alarm);
      case AlarmAction.ACTIVATE:
        return this.raise(memberId, alarm);
      case AlarmAction.DEACTIVATE:
        return this.clear(memberId, alarm);
      default:
        // The process of a real server ends here.
        return [];
    }
  }

  /** Returns the alarms of a kind, or all alarms if `kind` is `NONE`. */
  list(kind: AlarmType): AlarmMember[] {
    return this.#raised.filter(({ alarm }) => kind === AlarmType.NONE || alarm === kind);
  }

  /** Raises an alarm, unless it is raised already. Returns the alarm, or an empty list if `kind` is `NONE`. */
  raise(memberId: bigint, kind: AlarmType): AlarmMember[] {
    if (kind === AlarmType.NONE) return [];
    const isFirst = !this.#isRaised(kind);
    if (this.#find(memberId, kind).length === 0) this.#raised.push({ memberId, alarm: kind });
    if (isFirst) this.#changed(kind, true);
    return this.#find(memberId, kind);
  }

  /** Clears an alarm. Returns the alarm, or an empty list if the alarm is not raised. */
  clear(memberId: bigint, kind: AlarmType): AlarmMember[] {
    const cleared = this.#find(memberId, kind);
    this.#raised = this.#raised.filter((alarm) => !cleared.includes(alarm));
    if (cleared.length > 0 && !this.#isRaised(kind)) this.#changed(kind, false);
    return cleared;
  }

  /** Replaces the alarms by those of a backup. */
  restore(raised: readonly AlarmMember[]): void {
    this.#raised = [...raised];
    this.restart();
  }

  /** Puts all raised alarms into effect, as etcd does when it starts. */
  restart(): void {
    this.#effective = new Set(KINDS.filter((kind) => this.#isRaised(AlarmType[kind])));
    this.#permissionsSuspended = false;
  }

  /** Called when the first alarm of a kind is raised, and when the last alarm of a kind is cleared. */
  #changed(type: AlarmType, isRaised: boolean): void {
    if (!this.#is35) return this.restart();
    const kinds = KINDS.filter((kind) => AlarmType[kind] === type);
    if (kinds.length === 0) return;
    this.#effective = new Set(isRaised ? kinds : []);
    this.#permissionsSuspended = isRaised;
  }

  #isRaised(kind: AlarmType): boolean {
    return this.#raised.some(({ alarm }) => alarm === kind);
  }

  #find(memberId: bigint, kind: AlarmType): AlarmMember[] {
    return this.#raised.filter((alarm) => alarm.memberId === memberId && alarm.alarm === kind);
  }
}
