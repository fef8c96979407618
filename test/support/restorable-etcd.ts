import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { EtcdMember } from '../../src/testing/index.js';
import { ownEtcd } from './own-etcd.js';
import { temporaryFolder } from './temporary-folder.js';

interface Restorable {
  readonly endpoints: readonly string[];
  /** Stops the member, copies its data folder, and starts the member again. */
  backup(): Promise<void>;
  /** Stops the member, replaces its data folder with the copy, and starts the member again. */
  restore(): Promise<void>;
}

/** Starts a cluster of one member whose data the test can restore to an older state. The cluster ID stays the same. */
export async function restorableEtcd(): Promise<Restorable> {
  const folder = temporaryFolder();
  const [data, copy] = [join(folder, 'data'), join(folder, 'copy')];
  const { endpoints, members } = await ownEtcd({ args: [`--data-dir=${data}`] });
  const [member] = members as readonly [EtcdMember];
  const replace = async (action: () => void): Promise<void> => {
    await member.stop();
    action();
    await member.start();
  };
  return {
    endpoints,
    backup: () => replace(() => cpSync(data, copy, { recursive: true })),
    restore: () =>
      replace(() => {
        rmSync(data, { recursive: true });
        cpSync(copy, data, { recursive: true });
      }),
  };
}
