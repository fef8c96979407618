import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { beforeAll, beforeEach, inject, onTestFinished } from 'vitest';
import { findEtcd } from '../../../scripts/etcd.js';
import { debianProgram, type Program } from '../../../scripts/programs.js';
import { killGroup } from '../process-group.js';

// Proxies that tests put between the client and etcd: nginx, nghttpx, HAProxy and `etcd grpc-proxy`.

/** The port, the backend and the folder of one proxy. */
interface ProxyPlace {
  readonly port: number;
  /** The host and port of the server, which uses HTTP/2 without TLS. */
  readonly backend: string;
  readonly folder: string;
}

/** A proxy that uses HTTP/2 on both sides. */
export interface ProxyKind {
  readonly program: string;
  /** Rejects with the reason if the program is not available. */
  readonly find: () => Promise<Program>;
  /** Makes the proxy exit after its current requests. */
  readonly gracefulSignal: NodeJS.Signals;
  /**
   * The configuration file. `settings` are added to the server block of nginx, and to the global or defaults section of
   * HAProxy.
   */
  readonly config: (place: ProxyPlace, settings: string) => string;
  /** The command-line arguments. Only a program without a configuration file uses `settings` here. */
  readonly args: (configFile: string, place: ProxyPlace, settings: string) => readonly string[];
}

/**
 * The proxies, with the settings that their manuals recommend for long streams and large requests. Most other settings
 * have their defaults.
 */
export const PROXIES = {
  nginx: {
    program: 'nginx',
    find: () => debianProgram('nginx', 'nginx'),
    gracefulSignal: 'SIGQUIT',
    args: (file, { folder }) => ['-c', file, '-p', folder, '-e', `${folder}/error.log`, '-g', 'daemon off;'],
    config: ({ port, backend, folder }, settings) => `
      worker_processes 1;
      ${process.getuid?.() === 0 ? `user ${userInfo().username};` : ''}
      pid ${folder}/pid;
      events { worker_connections 1024; }
      http {
        log_format calls '$connection $uri $status';
        access_log ${folder}/access.log calls;
        error_log ${folder}/error.log info;
        ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((what) => `${what}_temp_path ${folder}/${what};`).join(' ')}
        server {
          listen 127.0.0.1:${port} http2;
          ${withDefaults(settings, ['client_max_body_size 0;', 'client_body_timeout 1h;', 'grpc_read_timeout 1h;'])}
          location / { grpc_pass grpc://${backend}; }
        }
      }`,
  },
  nghttpx: {
    program: 'nghttpx',
    find: () => debianProgram('nghttpx', 'nghttp2-proxy'),
    gracefulSignal: 'SIGQUIT',
    args: (file) => [`--conf=${file}`],
    config: ({ port, backend, folder }, settings) =>
      [
        `frontend=127.0.0.1,${port};no-tls`,
        `backend=${backend.replace(':', ',')};;proto=h2`,
        'workers=1',
        `errorlog-file=${folder}/error.log`,
        settings,
      ].join('\n'),
  },
  HAProxy: {
    program: 'haproxy',
    find: () => debianProgram('haproxy', 'haproxy'),
    gracefulSignal: 'SIGUSR1',
    args: (file) => ['-db', '-f', file],
    config: ({ port, backend }, settings) =>
      [
        'global',
        '  maxconn 200',
        ...settings.split('\n').filter((line) => !isOfDefaults(line)),
        'defaults',
        '  mode http',
        '  timeout connect 300ms',
        '  timeout client 1h',
        '  timeout server 1h',
        ...settings.split('\n').filter(isOfDefaults),
        'frontend clients',
        `  bind 127.0.0.1:${port} proto h2`,
        '  default_backend etcd',
        'backend etcd',
        `  server member ${backend} proto h2`,
        '',
      ].join('\n'),
  },
} as const satisfies Record<string, ProxyKind>;

export type ProxyName = keyof typeof PROXIES;

/** etcd's own proxy. It merges watches of several clients, renews leases itself and serves some reads from a cache. */
const GRPC_PROXY = {
  program: 'etcd',
  find: etcdProgram,
  gracefulSignal: 'SIGTERM',
  config: () => '',
  args: (_file, { port, backend, folder }, settings) => [
    'grpc-proxy',
    'start',
    `--endpoints=${backend}`,
    `--listen-addr=127.0.0.1:${port}`,
    `--advertise-client-url=127.0.0.1:${port}`,
    `--data-dir=${folder}/data`,
    ...settings.split(' ').filter((setting) => setting !== ''),
  ],
} as const satisfies ProxyKind;

/** The HTTP/2 proxies, and etcd's own proxy. */
export const ALL_PROXIES = { ...PROXIES, 'grpc-proxy': GRPC_PROXY } as const satisfies Record<string, ProxyKind>;

export type AnyProxyName = keyof typeof ALL_PROXIES;

async function etcdProgram(): Promise<Program> {
  const source = await findEtcd({ prefer: 'quick' });
  if (source.kind !== 'binary') throw new Error('grpc-proxy needs etcd as a program, but etcd runs elsewhere');
  return { path: source.etcd, environment: process.env };
}

/**
 * Whether a setting of HAProxy belongs to its defaults section, as timeouts and options do. Other settings belong to
 * the global section.
 */
function isOfDefaults(line: string): boolean {
  return /^\s*(timeout|option) /.test(line);
}

/** Adds the default directives that the settings lack, because nginx accepts no directive twice. */
function withDefaults(settings: string, defaults: readonly string[]): string {
  const missing = defaults.filter((directive) => !settings.includes(`${directive.split(' ')[0]} `));
  return [settings, ...missing].join(' ');
}

const START_TIMEOUT_MS = 60_000;
const POLL_MS = 10;

/** A running proxy, with its configuration and logs in a temporary folder. */
export class ProxyProcess {
  readonly endpoint: string;
  /** Resolves when the process has exited. */
  readonly exited: Promise<void>;
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #port: number;

  private constructor(child: ChildProcess, port: number, folder: string) {
    this.#child = child;
    this.#port = port;
    this.#folder = folder;
    this.endpoint = `http://127.0.0.1:${port}`;
    const killWithUs = (): void => killGroup(this.#child.pid);
    process.once('exit', killWithUs);
    this.exited = new Promise((resolve) => {
      child.once('exit', () => {
        process.removeListener('exit', killWithUs);
        resolve();
      });
    });
  }

  /**
   * Starts the proxy. Resolves as soon as the proxy accepts connections. `backend` is an http URL.
   *
   * @throws Error with the end of the log if the proxy does not start.
   */
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
      // Gives the proxy its own process group, so that its workers can be killed together with the proxy. Otherwise,
      // the workers of nginx would outlive a killed master process.
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

  /** Sends a signal to the process, but not to its workers. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Kills the process and its workers. */
  async kill(): Promise<void> {
    if (this.#child.pid === undefined || this.#hasEnded) return;
    killGroup(this.#child.pid);
    await this.exited;
  }

  /** Kills the process and removes its folder. */
  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Returns the content of one of the proxy's logs, or an empty text if the file does not exist. */
  log(name: 'access' | 'error' | 'output'): string {
    const file = join(this.#folder, `${name}.log`);
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  get #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
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

/**
 * The maximum time in milliseconds to wait until the program of a proxy is available. This limit is long, because the
 * first run downloads one Debian package after the other.
 */
const FETCH_TIMEOUT_MS = 600_000;

const found = new Map<AnyProxyName, Promise<{ readonly program: Program } | { readonly missing: string }>>();

/**
 * Starts the proxy in front of an http URL, by default the URL of the etcd member that all tests share. The proxy is
 * stopped when the test ends.
 */
export type StartProxy = (options?: { backend?: string; settings?: string }) => Promise<ProxyProcess>;

/**
 * Prepares a proxy for the tests of a file or a `describe` block. Returns a function that starts the proxy. If the
 * proxy is not available, the tests are skipped and the reason is printed.
 */
export function useProxy(name: AnyProxyName): StartProxy {
  const kind = ALL_PROXIES[name];
  let missing: string | undefined;
  let program: Program | undefined;
  beforeAll(async () => {
    const look = found.get(name) ?? find(name);
    found.set(name, look);
    const result = await look;
    if ('missing' in result) missing = result.missing;
    else program = result.program;
  }, FETCH_TIMEOUT_MS);
  beforeEach((context) => {
    if (missing !== undefined) context.skip(missing);
  });
  return async ({ backend = inject('endpoints')[0] as string, settings } = {}) => {
    const proxy = await ProxyProcess.start(kind, program as Program, backend, settings);
    onTestFinished(() => proxy.stop());
    return proxy;
  };
}

async function find(name: AnyProxyName): Promise<{ readonly program: Program } | { readonly missing: string }> {
  try {
    return { program: await ALL_PROXIES[name].find() };
  } catch (error) {
    const missing = `${name} is not available: ${error instanceof Error ? error.message : String(error)}`;
    process.stderr.write(`skipped: ${missing}\n`);
    return { missing };
  }
}
