import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { cli, RunningCli } from '../../../test/support/cli.js';
import { unique } from '../../../test/support/client.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';
import { CaptureFile } from '../src/proxy/capture-file.js';

// Files with traffic can be read only by their owner, also if another file was at the path, and links are not followed.

const ENDPOINTS = inject('endpoints').join();
const PROGRAM = [
  process.execPath,
  '-e',
  'fetch(process.env.ETCDCTL_ENDPOINTS.split(",")[0] + "/v3/kv/range", { method: "POST", body: `{"key":"YQ=="}` })',
];

/** Writes a recording to the file. */
async function record(file: string): Promise<{ readonly code: number | null; readonly stderr: string }> {
  return cli(['trace', '--record', file, '--', ...PROGRAM]);
}

/** Runs a proxy until a request has passed through it, or until it refuses to start. */
async function proxied(file: string): Promise<{ readonly code: number | null; readonly stderr: string }> {
  const proxy = new RunningCli(['proxy', '--quiet', '--record', file, '--endpoints', ENDPOINTS]);
  const url = await Promise.race([proxy.stderrMatch(/ETCDCTL_ENDPOINTS=(http:[^,\s]+)/), proxy.done.then(() => '')]);
  if (url !== '') await fetch(`${url}/version`);
  proxy.process.kill('SIGTERM');
  return proxy.done;
}

type Write = (file: string, folder: string) => Promise<{ readonly code: number | null; readonly stderr: string }>;

const WRITES: readonly (readonly [name: string, flag: string, write: Write])[] = [
  ['trace --out', '--out', (file) => cli(['trace', '--out', file, '--', 'put', unique(), 'v'])],
  ['trace --html', '--html', (file) => cli(['trace', '--html', file, '--', 'put', unique(), 'v'])],
  ['trace --out of a program', '--out', (file) => cli(['trace', '--out', file, '--', ...PROGRAM])],
  ['trace --html of a program', '--html', (file) => cli(['trace', '--html', file, '--', ...PROGRAM])],
  ['trace --record', '--record', record],
  ['proxy --record', '--record', proxied],
  [
    'show --html',
    '--html',
    async (file, folder) => {
      await record(join(folder, 'capture'));
      return cli(['show', join(folder, 'capture'), '--html', file]);
    },
  ],
  [
    'replay --test',
    '--test',
    async (file, folder) => {
      await record(join(folder, 'capture'));
      return cli(['replay', join(folder, 'capture'), '--test', file]);
    },
  ],
];

test.each(WRITES)('`%s` writes no byte to an existing file that others may read', async (_, __, write) => {
  const folder = temporaryFolder();
  const [file, other] = [join(folder, 'file'), join(folder, 'other')];
  writeFileSync(file, 'before');
  chmodSync(file, 0o666);
  // Another user who has opened the file still reads what this second name shows.
  linkSync(file, other);
  const { stderr } = await write(file, folder);
  expect(readFileSync(other, 'utf8')).toBe('before');
  expect(statSync(file).mode & 0o777, stderr).toBe(0o600);
  expect(readFileSync(file, 'utf8')).not.toBe('before');
});

test.each(WRITES)('`%s` refuses a symbolic link, a folder and a pipe, and changes nothing', async (_, flag, write) => {
  const folder = temporaryFolder();
  const [link, dangling, target, pipe] = ['link', 'dangling', 'target', 'pipe'].map((name) => join(folder, name));
  writeFileSync(target as string, 'before');
  symlinkSync(target as string, link as string);
  symlinkSync(join(folder, 'new'), dangling as string);
  execFileSync('sh', ['-c', 'mkfifo "$1"', 'sh', pipe as string]);
  const inFolder = join(folder, 'folder');
  mkdirSync(inFolder);
  for (const file of [link, dangling, inFolder, pipe]) {
    const { code, stderr } = await write(file as string, folder);
    expect(stderr).toMatch(new RegExp(`${flag}: got (?:a symbolic link|something that is not a regular file)`));
    expect(code).toBe(64);
  }
  expect(readFileSync(target as string, 'utf8')).toBe('before');
  expect(existsSync(join(folder, 'new'))).toBe(false);
});

// The number of a closed file descriptor may belong to the connection of a client.
test('a recording that is closed writes nothing to the file that reuses its file descriptor', () => {
  const folder = temporaryFolder();
  const capture = new CaptureFile(join(folder, 'capture'), 'test');
  capture.close();
  const other = join(folder, 'other');
  const descriptor = openSync(other, 'w');
  const address = { host: '127.0.0.1', port: 1 };
  const connection = { connection: 1, client: address, server: address, endpoint: 'http://127.0.0.1:1' };
  capture.opened({ ...connection, certificateName: undefined, atMs: 0 });
  capture.close();
  closeSync(descriptor);
  expect(readFileSync(other)).toHaveLength(0);
});

test('`trace --html` keeps the former page when the command does not run', async () => {
  const file = join(temporaryFolder(), 'trace.html');
  writeFileSync(file, 'before');
  expect(await cli(['trace', '--html', file, '--', 'get', '--bogus'])).toMatchObject({ code: 64 });
  expect(readFileSync(file, 'utf8')).toBe('before');
});
