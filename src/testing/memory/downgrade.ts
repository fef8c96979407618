import type { DowngradeInfo } from '../../gen/etcdserverpb/rpc.js';
import { serverError } from './service.js';
import type { MemberSettings } from './settings.js';

/** The interval at which etcd adapts the version of the cluster to the start or the end of a downgrade. */
const MONITOR_INTERVAL_MS = 4_000;
/** A semantic version, or its first two numbers. */
const VERSION = /^(\d+)\.(\d+)(?:\.(\d+)(?:-[0-9A-Za-z.-]*)?(?:\+[0-9A-Za-z.-]*)?)?$/;
const MAX_INT64 = 2n ** 63n - 1n;

type DowngradeSettings = Pick<MemberSettings, 'version' | 'clock'>;

/**
 * The downgrade of the cluster to the minor version before its own.
 *
 * The members of a cluster of etcd 3.6 and newer agree on the target version before they are replaced: up to 4 s after
 * the start of a downgrade, the version of the cluster and of its storage becomes the target version. In etcd 3.5, the
 * version of the cluster does not change.
 */
export class Downgrade {
  readonly #settings: DowngradeSettings;
  /** The minor version to which the cluster is downgraded. Undefined if no downgrade is in progress. */
  #target: number | undefined;
  /** The minor version of the cluster when `#target` changed last, or when the member was created. */
  #before: number;
  /** When `#target` changed last, or when the member was created, in milliseconds on the clock of the member. */
  #changedMs: number;

  constructor(settings: DowngradeSettings) {
    this.#settings = settings;
    this.#before = this.#own;
    this.#changedMs = settings.clock.now();
  }

  /** The version of the cluster, as "major.minor". */
  get clusterVersion(): string {
    return `3.${this.#minor}`;
  }

  get info(): DowngradeInfo {
    const enabled = this.#target !== undefined;
    return { enabled, targetVersion: enabled ? `3.${this.#target}.0` : '' };
  }

  /**
   * Checks whether the cluster can be downgraded to the version. Returns the minor version.
   *
   * @throws StatusError if the version is malformed, if it is not the minor version before that of the cluster, or if a
   * downgrade is in progress.
   */
  validate(version: string): number {
    const [, major, minor, patch = '0'] = VERSION.exec(version) ?? [];
    if (major === undefined || minor === undefined || [major, minor, patch].some((part) => BigInt(part) > MAX_INT64))
      throw serverError('WrongDowngradeVersionFormat');
    if (Number(major) !== 3 || Number(minor) !== this.#minor - 1) throw serverError('InvalidDowngradeTargetVersion');
    if (this.#target !== undefined) throw serverError('DowngradeInProcess');
    return Number(minor);
  }

  /** Starts a downgrade. @throws StatusError for the same reasons as `validate`. */
  enable(version: string): void {
    this.#change(this.validate(version));
  }

  /** Ends the downgrade. Returns whether one was in progress. */
  cancel(): boolean {
    const wasEnabled = this.#target !== undefined;
    if (wasEnabled) this.#change(undefined);
    return wasEnabled;
  }

  /** The minor version of the member's program. */
  get #own(): number {
    return Number(this.#settings.version.split('.')[1]);
  }

  /** The minor version of the cluster now. */
  get #minor(): number {
    const isSettled = this.#settings.clock.now() - this.#changedMs >= MONITOR_INTERVAL_MS;
    if (this.#settings.version === '3.5' || !isSettled) return this.#before;
    return this.#target ?? this.#own;
  }

  #change(target: number | undefined): void {
    this.#before = this.#minor;
    this.#target = target;
    this.#changedMs = this.#settings.clock.now();
  }
}
