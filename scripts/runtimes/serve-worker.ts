import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePorts } from '../../src/testing/free-ports.js';

const START_TIMEOUT_MS = 20_000;

/** A bundle served by workerd, which reaches nothing but this machine. */
export class ServedWorker implements Disposable {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  /** @param authority Who is trusted, in PEM. */
  static async start(workerd: string, bundle: string, authority: string): Promise<ServedWorker> {
    const [port] = await freePorts(1);
    const folder = dirname(bundle);
    writeFileSync(join(folder, 'config.capnp'), configOf(basename(bundle), port as number, authority));
    const child = spawn(workerd, ['serve', 'config.capnp'], { cwd: folder, stdio: ['ignore', 'inherit', 'inherit'] });
    const worker = new ServedWorker(`http://127.0.0.1:${port}/`, child);
    const deadline = performance.now() + START_TIMEOUT_MS;
    while (child.exitCode === null && performance.now() < deadline) {
      const answer = await fetch(worker.url).catch(() => undefined);
      if (answer !== undefined) return worker;
      await pause(50);
    }
    worker[Symbol.dispose]();
    throw new Error(`workerd did not serve within ${START_TIMEOUT_MS} ms`);
  }

  [Symbol.dispose](): void {
    this.#child.kill('SIGKILL');
  }
}

/** https://github.com/cloudflare/workerd/blob/main/src/workerd/server/workerd.capnp. No Node.js compatibility. */
function configOf(module: string, port: number, authority: string): string {
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    ( name = "main",
      worker = (
        modules = [(name = "${module}", esModule = embed "${module}")],
        compatibilityDate = "2026-11-01",
        globalOutbound = "machine" ) ),
    ( name = "machine",
      network = (
        allow = ["private"],
        tlsOptions = (trustBrowserCas = false, trustedCertificates = [${JSON.stringify(authority)}]) ) ),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
`;
}
