import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { cacheFolder } from '../cache-folder.js';
import { run } from './run.js';

/** An etcd on this machine. */
export interface EtcdBinary {
  readonly kind: 'binary';
  readonly etcd: string;
  /** Beside it, or on the PATH. */
  readonly etcdctl: string | undefined;
  /** "major.minor.patch". */
  readonly version: string;
  /** Where it comes from, for people. */
  readonly from: string;
}

/** @throws Error where the file is no etcd that runs here. */
export async function inspect(etcd: string, from: string): Promise<EtcdBinary> {
  const version = /etcd Version: (\d+\.\d+\.\d+)/.exec(await run(etcd, ['--version']))?.[1];
  if (version === undefined) throw new Error(`${etcd} --version does not say which version it is`);
  const beside = join(dirname(etcd), 'etcdctl');
  return { kind: 'binary', etcd, etcdctl: existsSync(beside) ? beside : onPath('etcdctl'), version, from };
}

export function onPath(program: string): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.map((folder) => join(folder, program)).find((file) => existsSync(file));
}

/**
 * Fills the cache folder of a version: `make` works in a folder of its own and names the one that has the programs.
 * Two processes may do this at once; the first one there wins.
 */
export async function intoCache(
  version: string,
  from: string,
  make: (work: string) => Promise<string>,
): Promise<EtcdBinary> {
  const folder = cacheFolder('etcd', version);
  const work = mkdtempSync(join(tmpdir(), 'etcdwire-etcd-'));
  try {
    const made = await make(work);
    await inspect(join(made, 'etcd'), from);
    mkdirSync(dirname(folder), { recursive: true });
    const staged = `${folder}.${process.pid}`;
    await run('cp', ['-r', made, staged]);
    try {
      renameSync(staged, folder);
    } catch (error) {
      rmSync(staged, { recursive: true, force: true });
      if (!existsSync(join(folder, 'etcd'))) throw error;
    }
  } finally {
    await run('chmod', ['-R', 'u+w', work]);
    rmSync(work, { recursive: true, force: true });
  }
  return inspect(join(folder, 'etcd'), from);
}
