import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type EtcdBinary, intoCache, onPath } from './binary.js';
import { run } from './run.js';

/**
 * etcd from the Debian or Ubuntu packages. They are unpacked into the cache rather than installed: installing
 * etcd-server would start a service on port 2379 that nobody asked for.
 */
export async function fromDebian(): Promise<EtcdBinary> {
  if (onPath('apt-get') === undefined) throw new Error('no apt-get on the PATH');
  if (process.getuid?.() !== 0) throw new Error('needs root, for apt-get update');
  await run('apt-get', ['update', '-qq']);
  const policy = await run('apt-cache', ['policy', 'etcd-server']);
  const version = /Candidate: (?:\d+:)?(\d+\.\d+\.\d+)/.exec(policy)?.[1];
  if (version === undefined) throw new Error('no package etcd-server');
  return intoCache(version, "Debian's package etcd-server", async (work) => {
    await run('apt-get', ['download', '-qq', 'etcd-server', 'etcd-client'], work);
    for (const file of readdirSync(work)) await run('dpkg-deb', ['-x', file, 'root'], work);
    const programs = join(work, 'root/usr/bin');
    if (!existsSync(join(programs, 'etcd'))) throw new Error('the package etcd-server has no usr/bin/etcd');
    return programs;
  });
}
