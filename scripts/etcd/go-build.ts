import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type EtcdBinary, intoCache, onPath } from './binary.js';
import { run } from './run.js';

const MODULE = 'module etcd\n\ngo 1.24\n';
const ETCD_MAIN = `package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
`;
const ETCDCTL_MAIN = `package main

import "go.etcd.io/etcd/etcdctl/v3/ctlv3"

func main() { ctlv3.MustStart() }
`;

/** `release` built from etcd's Go modules: etcd has no main package that \`go install\` would take. */
export async function buildWithGo(release: string): Promise<EtcdBinary> {
  if (onPath('go') === undefined) throw new Error('no go on the PATH');
  return intoCache(release, 'built from its Go modules', async (work) => {
    for (const [folder, text] of [
      ['etcd', ETCD_MAIN],
      ['etcdctl', ETCDCTL_MAIN],
    ] as const) {
      mkdirSync(join(work, folder));
      writeFileSync(join(work, folder, 'main.go'), text);
    }
    writeFileSync(join(work, 'go.mod'), MODULE);
    await run('go', ['get', `go.etcd.io/etcd/server/v3@v${release}`, `go.etcd.io/etcd/etcdctl/v3@v${release}`], work);
    await run('go', ['mod', 'tidy'], work);
    await run('go', ['build', '-trimpath', '-o', 'bin/', './etcd', './etcdctl'], work);
    return join(work, 'bin');
  });
}
