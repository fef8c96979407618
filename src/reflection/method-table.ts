import { methodList } from '../gen/methods.js';
import type { Method } from '../protobuf/schema.js';

export type AnyMethod = Method<unknown, unknown>;

export const allMethods = methodList as readonly unknown[] as readonly AnyMethod[];

/** Every RPC by its gRPC path, such as `/etcdserverpb.KV/Put`. */
export const methodByPath: ReadonlyMap<string, AnyMethod> = new Map(allMethods.map((method) => [method.path, method]));
