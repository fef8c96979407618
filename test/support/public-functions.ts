import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { declarationsOf } from '../../scripts/entry-points.js';

// Lists the public functions of the package, so that a test of all functions fails when a new function has no test.

/** Returns the source text of each exported function, and of each method in each exported class. */
export async function publicFunctions(): Promise<Map<string, string>> {
  const functions = new Map<string, string>();
  const { exports } = JSON.parse(readFileSync('package.json', 'utf8')) as { exports: Record<string, unknown> };
  const entries = Object.values(exports).flatMap((each) => {
    const { default: file } = each as { readonly default?: string };
    // The main entry point exports everything that `etcdwire/core` exports, and the class CoreClient by its own name.
    return file === undefined || file === './dist/core.js'
      ? []
      : [file.replace('./dist/', 'src/').replace(/\.js$/, '.ts')];
  });
  for (const entry of entries) {
    for (const [name, { file }] of declarationsOf(join(process.cwd(), entry)))
      addFunctions(functions, name, (await import(/* @vite-ignore */ file))[name]);
    for (const [name, value] of Object.entries(await exportsOf(entry))) addFunctions(functions, name, value);
  }
  // The package exports only interfaces for these classes, not the classes.
  for (const [name, file, className] of INTERNAL_CLASSES)
    addFunctions(functions, name, (await exportsOf(join('src', file)))[className]);
  return functions;
}

/** The classes behind public interfaces: the name of the interface, the file and the name of the class. */
const INTERNAL_CLASSES = [
  ['Leases', 'client/lease/leases.ts', 'LeaseClient'],
  ['Watch', 'client/watch/watch.ts', 'KeyWatch'],
  ['Mirror', 'extras/ranges/mirror.ts', 'RangeMirror'],
  ['CachedRange', 'extras/ranges/cached-range.ts', 'CachedKeyRange'],
] as const;

function exportsOf(file: string): Promise<Record<string, unknown>> {
  return import(/* @vite-ignore */ join(process.cwd(), file));
}

function addFunctions(functions: Map<string, string>, name: string, value: unknown): void {
  if (typeof value === 'object' && value !== null)
    for (const [key, each] of Object.entries(value))
      if (typeof each === 'function') functions.set(`${name}.${key}`, String(each));
  if (typeof value !== 'function') return;
  const code = String(value);
  if (!code.startsWith('class ')) return void functions.set(name, code);
  const built = /^\s*constructor(\([\s\S]*)/m.exec(code)?.[1];
  if (built !== undefined) functions.set(`new ${name}`, built);
  // A static method comes last, so that it replaces a method of the same name, such as `EtcdCluster.start`.
  for (const owner of [value.prototype as object, value]) {
    for (const [key, { value: method }] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
      if (typeof method === 'function' && key !== 'constructor' && key !== 'prototype')
        functions.set(`${name}.${key}`, String(method));
    }
  }
}

/** Whether the function has a parameter. */
export function hasParameters(code: string): boolean {
  return !/^[^(]*\(\s*\)/.test(code);
}
