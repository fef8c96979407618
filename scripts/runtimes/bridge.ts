import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePorts } from '../../src/testing/etcd/free-ports.js';

const PROGRAM = fileURLToPath(new URL('../../docs/examples/bridge.ts', import.meta.url));

/** The program docs/examples/bridge.ts in a process of its own. */
export class Bridge implements Disposable {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  /** @param origin The origin of the pages that may use the bridge. Undefined for programs that are no pages. */
  static async start(etcd: string, origin: string | undefined): Promise<Bridge> {
    const [port] = await freePorts(1);
    const { hostname, port: etcdPort } = new URL(etcd);
    const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM], {
      env: { ...process.env, ETCD_HOST: hostname, ETCD_PORT: etcdPort, PORT: String(port), ORIGIN: origin },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const bridge = new Bridge(`ws://127.0.0.1:${port}`, child);
    await Promise.race([
      once(child.stdout as NodeJS.ReadableStream, 'data'),
      once(child, 'exit').then(([code]) => {
        throw new Error(`the bridge exited with ${code}`);
      }),
    ]);
    return bridge;
  }

  [Symbol.dispose](): void {
    this.#child.kill('SIGKILL');
  }
}
