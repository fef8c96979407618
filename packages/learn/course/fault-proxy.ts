import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../cli/src/program.js';
import type { Frame } from './12-break-it.js';

// Does in this process what the commands `etcdwire proxy` and `etcdwire show` do, which chapter 12 shows.

/** Runs a command of etcdwire. `onError` receives what the command prints on standard error. */
async function etcdwire(args: readonly string[], interrupted: AbortSignal, onError: (text: string) => void) {
  const output: string[] = [];
  const stdin = (async function* (): AsyncGenerator<Uint8Array> {})();
  const stdout = { write: (text: string | Uint8Array) => output.push(`${text}`) };
  await run(args, { stdin, stdout, stderr: { write: (text) => onError(`${text}`) }, interrupted });
  return output.join('');
}

/** Starts a proxy that records all connections. `stop` ends it, and resolves with the frames of the recording. */
async function startRecorder(serverAddress: string, faults: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-learn-'));
  const file = join(folder, 'traffic.pcapng');
  const flags = ['--listen', 'http://127.0.0.1:0', '--endpoints', `http://${serverAddress}`, '--record', file];
  const args = ['proxy', '--quiet', ...flags, ...faults.flatMap((fault) => ['--fault', fault])];
  const end = new AbortController();
  let ended: Promise<string> | undefined;
  const address = await new Promise<string>((resolve, reject) => {
    let messages = '';
    ended = etcdwire(args, end.signal, (text) => {
      messages += text;
      const [, found] = /ETCDCTL_ENDPOINTS=http:\/\/(\S+)/.exec(messages) ?? [];
      if (found !== undefined) resolve(found);
    });
    void ended.then(() => reject(new Error(messages)));
  });
  const stop = async (): Promise<Frame[]> => {
    end.abort('SIGINT');
    await ended;
    const lines = await etcdwire(['show', '-w', 'json', file], new AbortController().signal, () => {});
    rmSync(folder, { recursive: true });
    return lines
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Frame);
  };
  return { address, stop };
}

/**
 * Starts two proxies in a row in front of a server. The first one causes the faults, and both make a recording. `stop`
 * resolves with both recordings: `atClient` is what the client sent, and `atEtcd` is what reached etcd.
 */
export async function startFaultProxy(serverAddress: string, ...faults: readonly string[]) {
  const second = await startRecorder(serverAddress, []);
  const first = await startRecorder(second.address, faults);
  const stop = async () => ({ atClient: await first.stop(), atEtcd: await second.stop() });
  return { address: first.address, stop };
}
