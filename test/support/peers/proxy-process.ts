import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Program } from '../../../scripts/programs.js';
import type { ProxyKind } from './proxies.js';

const START_TIMEOUT_MS = 10_000;
const POLL_MS = 10;

/** A proxy in the foreground, with its configuration and logs in a temporary folder. */
export class ProxyProcess {
  readonly endpoint: string;
  /** Resolves when it has ended. */
  readonly exited: Promise<void>;
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #port: number;

  private constructor(child: ChildProcess, port: number, folder: string) {
    this.#child = child;
    this.#port = port;
    this.#folder = folder;
    this.endpoint = `http://127.0.0.1:${port}`;
    const killWithUs = (): void => this.#killGroup();
    process.once('exit', killWithUs);
    this.exited = new Promise((resolve) => {
      child.once('exit', () => {
        process.removeListener('exit', killWithUs);
        resolve();
      });
    });
  }

  /** Resolves once it listens. `backend` is an http URL. @throws Error with the end of its log. */
  static async start(kind: ProxyKind, program: Program, backend: string, settings = ''): Promise<ProxyProcess> {
    const folder = mkdtempSync(join(tmpdir(), `etcdwire-${kind.program}-`));
    const port = await freePort();
    const configFile = join(folder, 'config');
    const place = { port, backend: new URL(backend).host, folder };
    writeFileSync(configFile, kind.config(place, settings));
    const output = openSync(join(folder, 'output.log'), 'a');
    const child = spawn(program.path, kind.args(configFile, place, settings), {
      cwd: folder,
      env: program.environment,
      stdio: ['ignore', output, output],
      // A group of its own: nginx has workers, which outlive a master that is killed.
      detached: true,
    });
    child.once('error', () => {});
    const proxy = new ProxyProcess(child, port, folder);
    try {
      await proxy.#listening();
    } catch (error) {
      await proxy.stop();
      throw error;
    }
    return proxy;
  }

  /** Sends a signal to it, not to its workers. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Ends it and its workers at once. */
  async kill(): Promise<void> {
    if (this.#child.pid === undefined || this.#hasEnded) return;
    this.#killGroup();
    await this.exited;
  }

  /** Ends it, and removes its folder. */
  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** What it wrote to one of its logs so far. */
  log(name: 'access' | 'error' | 'output'): string {
    const file = join(this.#folder, `${name}.log`);
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  get #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  #killGroup(): void {
    if (this.#child.pid === undefined) return;
    try {
      process.kill(-this.#child.pid, 'SIGKILL');
    } catch {
      // Gone already.
    }
  }

  async #listening(): Promise<void> {
    const deadline = performance.now() + START_TIMEOUT_MS;
    while (performance.now() < deadline && this.#child.pid !== undefined && !this.#hasEnded) {
      if (await accepts(this.#port)) return;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    const said = `${this.log('output')}${this.log('error')}`.trim().split('\n').slice(-5).join('\n');
    throw new Error(`${this.#child.spawnfile} did not start:\n${said}`);
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    }).once('error', () => resolve(false));
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
