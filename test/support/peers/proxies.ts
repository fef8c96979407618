import { userInfo } from 'node:os';
import { findEtcd } from '../../../scripts/etcd/find.js';
import { debianProgram, type Program } from '../../../scripts/programs.js';

/** Where a proxy listens, what stands behind it, and which folder is its own. */
interface ProxyPlace {
  readonly port: number;
  /** host:port, plain HTTP/2. */
  readonly backend: string;
  readonly folder: string;
}

/** A proxy that speaks HTTP/2 on both sides. */
export interface ProxyKind {
  readonly program: string;
  /** Rejects with the reason where there is none. */
  readonly find: () => Promise<Program>;
  /** Makes it end once what is under way is done. */
  readonly gracefulSignal: NodeJS.Signals;
  /** The configuration file, with further settings: of nginx's server, of HAProxy's global section or its defaults. */
  readonly config: (place: ProxyPlace, settings: string) => string;
  /** The arguments; the settings are for programs without a configuration file. */
  readonly args: (configFile: string, place: ProxyPlace, settings: string) => readonly string[];
}

/** With what their manuals say to set for long streams and large requests, and else as they come. */
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

/** etcd's own proxy, which joins watches of several clients, renews leases itself and answers some reads from a cache. */
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

/** Proxies of HTTP/2, and etcd's own. */
export const ALL_PROXIES = { ...PROXIES, 'grpc-proxy': GRPC_PROXY } as const satisfies Record<string, ProxyKind>;

export type AnyProxyName = keyof typeof ALL_PROXIES;

async function etcdProgram(): Promise<Program> {
  const source = await findEtcd({ prefer: 'quick' });
  if (source.kind !== 'binary') throw new Error('the servers are not processes of ours, and there is no program etcd');
  return { path: source.etcd, environment: process.env };
}

/** Timeouts and options of HAProxy belong to its defaults, the rest to the global section. */
function isOfDefaults(line: string): boolean {
  return /^\s*(timeout|option) /.test(line);
}

/** nginx takes no directive twice. */
function withDefaults(settings: string, defaults: readonly string[]): string {
  const missing = defaults.filter((directive) => !settings.includes(`${directive.split(' ')[0]} `));
  return [settings, ...missing].join(' ');
}
