import { type AnyMethod, allMethods } from '../protobuf/method-table.js';

/** Without its package: KV/Range, Lock/Lock. */
export function shortPath({ path }: AnyMethod): string {
  return path.slice(path.lastIndexOf('.', path.lastIndexOf('/')) + 1);
}

/** Of a message, without its package. */
export function shortType({ typeName }: { readonly typeName: string }): string {
  return typeName.slice(typeName.lastIndexOf('.') + 1);
}

/** The RPC of that name, in any case: KV/Range, etcdserverpb.KV/Range, /etcdserverpb.KV/Range. */
export function findMethod(name: string): AnyMethod | undefined {
  return allMethods.find((each) =>
    [each.path, each.path.slice(1), shortPath(each)].some((path) => path.toLowerCase() === name.toLowerCase()),
  );
}

/** Whether that is the name of a message or enum, with its package or without; in any case. */
export function isNamed(typeName: string, name: string): boolean {
  return `.${typeName}`.toLowerCase().endsWith(`.${name}`.toLowerCase());
}
