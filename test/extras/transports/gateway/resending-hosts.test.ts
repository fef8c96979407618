import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { findChromium, launchChromium } from '../../../../scripts/chromium.js';
import { fetchRuntime, RUNTIMES } from '../../../../scripts/runtimes/runtimes.js';
import { prefix } from '../../../../src/index.js';
import { openClient, unique } from '../../../support/client.js';
import type { Ends, Task } from '../../../support/resending-program.js';
import { type ResettingProxy, resettingProxy } from '../../../support/resetting-proxy.js';
import { temporaryFolder } from '../../../support/temporary-folder.js';
import { valueText } from '../../../support/watch-events.js';

// Some JavaScript runtimes resend a POST by themselves when a kept-alive connection is reset. In these tests, each
// runtime writes through a proxy. The proxy passes the request on to etcd, lets another client write, and resets the
// connection. A guard is a key that makes a resent write take effect only once.

type Perform = (task: Task) => Promise<Ends>;

/** A JavaScript runtime. */
interface Host {
  readonly name: string;
  readonly resends: boolean;
  /**
   * Opens a proxy in front of etcd. Resolves with the proxy and a function that makes the runtime write through the
   * proxy. If the runtime cannot be used, resolves with the reason as a string.
   */
  open(): Promise<string | { readonly proxy: ResettingProxy; readonly perform: Perform }>;
}

const HOSTS: readonly Host[] = [
  { name: 'Chromium', resends: true, open: openChromium },
  { name: 'Deno', resends: true, open: () => openProgram(() => runtime('Deno')) },
  { name: 'Bun', resends: false, open: () => openProgram(() => runtime('Bun')) },
  { name: 'Node.js', resends: false, open: () => openProgram(async () => [process.execPath]) },
];

describe.each(HOSTS)('when a connection of $name is reset', ({ resends, open }) => {
  test.for<readonly [string, string, boolean | undefined]>([
    [resends ? 'a put is applied twice' : 'a put is applied once', 'without a guard', false],
    ['a put is applied once', 'with a guard', true],
    ['a put is applied once', 'by default', undefined],
  ])('%s %s', async ([, , guardWrites], context) => {
    const host = await open();
    if (typeof host === 'string') return context.skip(host);
    const key = unique();
    const from = (await openClient().range('k', { countOnly: true })).header.revision + 1n;
    const reset = host.proxy.resetAnswer(base64(key), () => openClient().put(key, 'theirs'));
    const ends = await host.perform({ endpoint: host.proxy.endpoint, key, what: 'put', guardWrites });
    await reset;
    if (resends || guardWrites === true) expect(ends).toEqual(['resolved']);
    else expect(ends).toMatchObject([{ outcome: 'unknown' }]);
    expect(await history(key, from)).toEqual(
      resends && guardWrites === false ? ['mine', 'theirs', 'mine'] : ['mine', 'theirs'],
    );
  });

  test.for<readonly [string, string, boolean | undefined]>([
    [resends ? '3' : '2', 'without a guard', false],
    ['2', 'with a guard', true],
    ['2', 'by default', undefined],
  ])('two increments of a counter add %s %s', async ([total, , guardWrites], context) => {
    const host = await open();
    if (typeof host === 'string') return context.skip(host);
    const key = unique();
    // The proxy resets the connection instead of answering the request that contains this text. This request is the
    // transaction that puts the value 1.
    const reset = host.proxy.resetAnswer(`"value":${base64('1')}`, async () => {});
    await host.perform({ endpoint: host.proxy.endpoint, key, what: 'increments', guardWrites });
    await reset;
    expect((await openClient().get(key))?.text()).toBe(total);
  });
});

/** Returns a key or value in the form that it has in a JSON request: a quoted string in base64. */
function base64(text: string): string {
  return `"${btoa(text)}"`;
}

/** Returns the values that the key has had since the revision `from`, in order. */
async function history(key: string, from: bigint): Promise<string[]> {
  const etcd = openClient();
  const watch = etcd.watch(prefix(key), { startRevision: from });
  await etcd.put(`${key}~`, '');
  const values: string[] = [];
  for await (const event of watch) {
    if (event.key !== key) return values;
    values.push(valueText(event));
  }
  throw new Error('the watch ended');
}

async function bundled(host: 'node' | 'none'): Promise<Uint8Array> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('../../../support/resending-program.ts', import.meta.url))],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    platform: 'neutral',
    external: ['node:*'],
    logLevel: 'warning',
    plugins: [
      {
        name: 'host',
        setup: ({ onResolve, resolve }) => {
          if (host === 'node') return;
          onResolve({ filter: /\/host\/node\.js$/ }, ({ path, ...options }) =>
            resolve(path.replace('node.js', 'none.js'), { ...options }),
          );
        },
      },
    ],
  });
  return outputFiles[0]?.contents as Uint8Array;
}

async function openChromium(): ReturnType<Host['open']> {
  const chromium = findChromium();
  if (chromium === undefined) return 'this machine has no Chromium';
  const proxy = await resettingProxy(
    inject('endpoints')[0] as string,
    new Map([
      ['/', { type: 'text/html', content: '<script type="module" src="/bundle.mjs"></script>' }],
      ['/bundle.mjs', { type: 'text/javascript', content: await bundled('none') }],
    ]),
  );
  const browser = await launchChromium(chromium);
  onTestFinished(() => browser.close());
  const page = await browser.newPage();
  await page.goto(proxy.endpoint);
  await page.waitForFunction('globalThis.perform');
  return { proxy, perform: (task) => page.evaluate(`perform(${JSON.stringify(task)})`) };
}

async function openProgram(command: () => Promise<readonly string[] | string>): ReturnType<Host['open']> {
  const found = await command();
  if (typeof found === 'string') return found;
  const [program = '', ...args] = found;
  const file = join(temporaryFolder(), 'program.mjs');
  writeFileSync(file, await bundled('node'));
  const proxy = await resettingProxy(inject('endpoints')[0] as string);
  return {
    proxy,
    perform: async (task) => {
      const { stdout } = await promisify(execFile)(program, [...args, file, JSON.stringify(task)]);
      return JSON.parse(stdout) as Ends;
    },
  };
}

async function runtime(wanted: string): Promise<readonly string[] | string> {
  const found = RUNTIMES.find(({ name }) => name === wanted);
  if (found === undefined) return `${wanted} has no build for this machine`;
  try {
    return [await fetchRuntime(found), ...(found.args ?? [])];
  } catch (error) {
    return (error as Error).message;
  }
}
