/**
 * `startEtcd` rejects with this error if it finds no suitable etcd on this machine, and cannot download or build one.
 * The message lists the places that were tried, and says what to install.
 *
 * @example
 * import { EtcdNotFoundError, startEtcd } from 'etcdwire/testing';
 *
 * const etcd = await startEtcd({ download: false }).catch((error: unknown) => {
 *   if (error instanceof EtcdNotFoundError) return undefined; // Skip the tests that need a real etcd.
 *   throw error;
 * });
 * await etcd?.close();
 */
export class EtcdNotFoundError extends Error {
  /** The places that were tried, each with the reason why it has no suitable etcd. */
  readonly tried: readonly string[];

  /** @internal */
  constructor(minor: string | undefined, tried: readonly string[]) {
    super(
      `found no etcd${minor === undefined ? '' : ` ${minor}`}. Tried:\n${tried.map((line) => `  - ${line}`).join('\n')}\n` +
        'Install etcd, or Go 1.25 or newer. Or set ETCD_BIN to an etcd program, or ETCD_MIRROR to a mirror ' +
        'of https://github.com/etcd-io/etcd/releases/download.',
    );
    this.name = 'EtcdNotFoundError';
    this.tried = tried;
  }
}
