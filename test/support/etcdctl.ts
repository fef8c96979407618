import { execFileSync } from 'node:child_process';

/** What etcdctl prints. Fails, with what it said, where etcdctl does. */
export function runEtcdctl(etcdctl: string, endpoints: readonly string[], ...args: string[]): string {
  return execFileSync(etcdctl, ['--endpoints', endpoints.join(','), ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}
