import { methodList } from '../../../gen/methods.js';
import type { Method } from '../../../wire/index.js';

export type AnyMethod = Method<unknown, unknown>;

export const allMethods = methodList as readonly unknown[] as readonly AnyMethod[];

/** Returns the path of a method without its package, such as `KV/Range`. */
export function shortPath({ path }: AnyMethod): string {
  return path.slice(path.lastIndexOf('.', path.lastIndexOf('/')) + 1);
}

/** Every RPC by its gRPC path, such as `/etcdserverpb.KV/Put`. */
export const methodByPath: ReadonlyMap<string, AnyMethod> = new Map(allMethods.map((method) => [method.path, method]));

/** Every RPC by its short path. */
export const methodByShortPath: ReadonlyMap<string, AnyMethod> = new Map(
  allMethods.map((method) => [shortPath(method), method]),
);
