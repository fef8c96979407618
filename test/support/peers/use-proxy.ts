import { beforeAll, beforeEach, inject, onTestFinished } from 'vitest';
import type { Program } from '../../../scripts/programs.js';
import { ALL_PROXIES, type AnyProxyName } from './proxies.js';
import { ProxyProcess } from './proxy-process.js';

/** Packages are fetched, one after the other, the first time. */
const FETCH_TIMEOUT_MS = 600_000;

const found = new Map<AnyProxyName, Promise<{ readonly program: Program } | { readonly missing: string }>>();

/** Starts the proxy in front of an http URL, by default that of the shared member; stopped when the test ends. */
export type StartProxy = (options?: { backend?: string; settings?: string }) => Promise<ProxyProcess>;

/** For the tests of a block: where the proxy cannot be had they are skipped, and the reason is printed. */
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
    const missing = `no ${name}: ${error instanceof Error ? error.message : String(error)}`;
    process.stderr.write(`skipped: ${missing}\n`);
    return { missing };
  }
}
