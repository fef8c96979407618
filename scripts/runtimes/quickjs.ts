import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from '../../src/testing/etcd/cache.js';
import { onPath, run, withProgress } from '../../src/testing/etcd/programs.js';
import type { Command } from './killed-holders.js';

const SOURCES = fileURLToPath(new URL('../embedded', import.meta.url));

/** QuickJS in a host program. */
export interface QuickJs {
  readonly title: string;
  readonly command: Command;
}

/** QuickJS in WebAssembly, which needs no compiler. */
export const QUICKJS_WASM: QuickJs = {
  title: 'QuickJS (quickjs-emscripten 0.32.0)',
  command: [process.execPath, '--import', 'tsx', fileURLToPath(new URL('quickjs-wasm.ts', import.meta.url))],
};

/** Compiles the host program with cargo. Resolves with the reason if the machine cannot compile it. */
export async function buildQuickJs(): Promise<QuickJs | string> {
  if (process.platform === 'win32') return 'the host program needs clocks and sockets of Unix';
  if (onPath('cargo') === undefined) return 'cargo was not found; install Rust';
  const folder = cacheFolder('embedded');
  mkdirSync(folder, { recursive: true });
  // Cargo works on a copy, so that it writes nothing into the repository.
  cpSync(SOURCES, folder, { recursive: true, preserveTimestamps: true });
  try {
    await withProgress('downloading QuickJS', run('cargo', ['fetch', '--locked'], folder));
  } catch (error) {
    return (error as Error).message;
  }
  await withProgress('compiling QuickJS', run('cargo', ['build', '--release', '--locked'], folder));
  const [, version] =
    /name = "rquickjs"\nversion = "(.+)"/.exec(readFileSync(join(SOURCES, 'Cargo.lock'), 'utf8')) ?? [];
  return { title: `QuickJS (rquickjs ${version})`, command: [join(folder, 'target/release/embedded')] };
}
