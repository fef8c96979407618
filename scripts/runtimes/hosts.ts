import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePorts } from '../../src/testing/etcd/free-ports.js';
import { type Browser, launchChromium } from '../chromium.js';
import type { CheckResult, Conformance } from './conformance.js';
import type { Memory, MemoryRows } from './memory.js';
import type { MeasuredMemory } from './worker.js';

// Runtimes that do not run programs: a page in a browser, and a worker in workerd.

/** A page in headless Chromium that loads a bundle. The page has a different origin from etcd. */
export class BrowserPage implements AsyncDisposable {
  readonly version: string;
  readonly #browser: Browser;
  readonly #server: Server;

  private constructor(browser: Browser, server: Server) {
    this.version = browser.version();
    this.#browser = browser;
    this.#server = server;
  }

  static async open(executablePath: string, bundle: string): Promise<BrowserPage> {
    const script = readFileSync(bundle);
    const server = createServer((request, response) => {
      if (request.url === '/bundle.mjs') response.setHeader('content-type', 'text/javascript').end(script);
      else response.setHeader('content-type', 'text/html').end('<script type="module" src="/bundle.mjs"></script>');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new BrowserPage(await launchChromium(executablePath), server);
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async conformance(what: Conformance): Promise<CheckResult[]> {
    const page = await this.#browser.newPage();
    await page.goto(this.origin);
    await page.waitForFunction('globalThis.conformance');
    return (await page.evaluate(`conformance(${JSON.stringify(what)})`)) as CheckResult[];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close();
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

const START_TIMEOUT_MS = 60_000;
/** The unit of CPU times in /proc on Linux. */
const TICK_MS = 10;

/** What a worker finds around itself. */
export interface Surroundings {
  /** The text of its variables `ETCD` and `PROXY`. */
  readonly etcd?: string;
  /** The folder for Durable Objects of the class `Settings`. Undefined if the worker has none. */
  readonly storage?: string;
  /** Whether workerd prints nothing, because the worker fails on purpose. */
  readonly isSilent?: boolean;
}

/**
 * A bundle that workerd runs as an HTTP server. The bundle can connect only to private addresses, such as 127.0.0.1.
 */
export class ServedWorker implements Disposable {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  /** @param authority The trusted certificate authority, in PEM. */
  static async start(
    workerd: string,
    bundle: string,
    authority: string,
    surroundings: Surroundings = {},
  ): Promise<ServedWorker> {
    const [port] = await freePorts(1);
    const folder = dirname(bundle);
    writeFileSync(join(folder, 'config.capnp'), configOf(basename(bundle), port as number, authority, surroundings));
    const stdio = surroundings.isSilent ? 'ignore' : 'inherit';
    const child = spawn(workerd, ['serve', 'config.capnp'], { cwd: folder, stdio });
    const worker = new ServedWorker(`http://127.0.0.1:${port}/`, child);
    const deadline = performance.now() + START_TIMEOUT_MS;
    while (child.exitCode === null && performance.now() < deadline) {
      const answer = await fetch(worker.url).catch(() => undefined);
      if (answer !== undefined) return worker;
      await pause(50);
    }
    worker[Symbol.dispose]();
    throw new Error(`workerd did not respond within ${START_TIMEOUT_MS} ms`);
  }

  fetch(init: RequestInit = {}): Promise<Response> {
    return fetch(this.url, { ...init, signal: AbortSignal.timeout(START_TIMEOUT_MS) });
  }

  /** The CPU time of workerd so far, in milliseconds. */
  get cpuMs(): number {
    const [user, system] = readFileSync(`/proc/${this.#child.pid}/stat`, 'utf8')
      .replace(/.*\) /, '')
      .split(' ')
      .slice(11);
    return (Number(user) + Number(system)) * TICK_MS;
  }

  /** Measures the resident memory of workerd. workerd does not show the heap of a worker. */
  async memory(endpoint: string): Promise<MemoryRows> {
    const server = createServer((_, response) => {
      const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
      const [, resident] = /VmRSS:\s*(\d+) kB/.exec(status) ?? [];
      response.end(JSON.stringify({ heap: 0, resident: Number(resident) * 1_024 } satisfies Memory));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const report = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
      const body = JSON.stringify({ endpoint, report } satisfies MeasuredMemory);
      return (await (await fetch(`${this.url}memory`, { method: 'POST', body })).json()) as MemoryRows;
    } finally {
      server.closeAllConnections();
      server.close();
    }
  }

  [Symbol.dispose](): void {
    this.#child.kill('SIGKILL');
  }
}

/**
 * Returns a configuration of workerd without Node.js compatibility. For the schema, see
 * https://github.com/cloudflare/workerd/blob/main/src/workerd/server/workerd.capnp.
 */
function configOf(module: string, port: number, authority: string, { etcd = '', storage }: Surroundings): string {
  // The name of the class is that of the object in docs/examples/edge/settings.js.
  const objects = `
        durableObjectNamespaces = [(className = "Settings", uniqueKey = "settings")],
        durableObjectStorage = (localDisk = "storage"),`;
  const disk = `
    ( name = "storage", disk = (path = ${JSON.stringify(storage)}, writable = true) ),`;
  const object = ', (name = "SETTINGS", durableObjectNamespace = "Settings")';
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [${storage ? disk : ''}
    ( name = "main",
      worker = (
        modules = [(name = "${module}", esModule = embed "${module}")],
        compatibilityDate = "2026-11-01",
        bindings = [(name = "ETCD", text = "${etcd}"), (name = "PROXY", text = "${etcd}"), (name = "VPC", service = "machine")${storage ? object : ''}],${storage ? objects : ''}
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
