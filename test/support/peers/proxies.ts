import { userInfo } from 'node:os';

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
  /** Debian's package. */
  readonly source: string;
  /** Makes it end once what is under way is done. */
  readonly gracefulSignal: NodeJS.Signals;
  /** The configuration file, with further settings: of nginx's server, of HAProxy's global section. */
  readonly config: (place: ProxyPlace, settings: string) => string;
  readonly args: (configFile: string, folder: string) => readonly string[];
}

/** With what their manuals say to set for long streams and large requests, and else as they come. */
export const PROXIES = {
  nginx: {
    program: 'nginx',
    source: 'nginx',
    gracefulSignal: 'SIGQUIT',
    args: (file, folder) => ['-c', file, '-p', folder, '-e', `${folder}/error.log`, '-g', 'daemon off;'],
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
    source: 'nghttp2-proxy',
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
    source: 'haproxy',
    gracefulSignal: 'SIGUSR1',
    args: (file) => ['-db', '-f', file],
    config: ({ port, backend }, settings) =>
      [
        'global',
        '  maxconn 200',
        settings,
        'defaults',
        '  mode http',
        '  timeout connect 300ms',
        '  timeout client 1h',
        '  timeout server 1h',
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

/** nginx takes no directive twice. */
function withDefaults(settings: string, defaults: readonly string[]): string {
  const missing = defaults.filter((directive) => !settings.includes(`${directive.split(' ')[0]} `));
  return [settings, ...missing].join(' ');
}
