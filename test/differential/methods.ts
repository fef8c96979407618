import { methods } from '../../src/gen/methods.js';
import type { Method } from '../../src/wire/protobuf/schema.js';

export type Service = keyof typeof methods;

type AnyMethod = Method<Record<string, unknown>, Record<string, unknown>>;

/** All RPCs by name, such as "kv.put". The types of the messages are erased. */
export const rpcs: ReadonlyMap<string, AnyMethod> = new Map(
  Object.entries(methods).flatMap(([service, table]) =>
    Object.entries(table).map(([name, method]): [string, AnyMethod] => [
      `${service}.${name}`,
      method as unknown as AnyMethod,
    ]),
  ),
);

export function rpc(name: string): AnyMethod {
  const method = rpcs.get(name);
  if (method === undefined) throw new Error(`no RPC is named ${name}`);
  return method;
}
