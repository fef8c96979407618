import { describeType } from './bytes.js';
import { invalidInput } from './errors.js';

const INT64_MAX = 2n ** 63n - 1n;

/** @throws EtcdError unless `value` is a bigint that int64 holds, and no less than `least`. */
export function checkInt64(value: bigint, argument: string, least = 0n): bigint {
  if (typeof value === 'bigint' && value >= least && value <= INT64_MAX) return value;
  throw invalidInput(argument, show(value), `a bigint from ${least} to 2^63 - 1`);
}

/** The same, where none need be given. */
export function checkOptionalInt64(value: bigint | undefined, argument: string): bigint | undefined {
  return value === undefined ? undefined : checkInt64(value, argument);
}

/** For counts, which may be given as a number. @throws EtcdError unless it is whole and no less than `least`. */
export function checkCount(value: number | bigint, argument: string, least = 0n): bigint {
  if (typeof value === 'bigint') return checkInt64(value, argument, least);
  if (Number.isSafeInteger(value) && value >= least) return BigInt(value);
  throw invalidInput(argument, show(value), `a whole number or bigint, ${least} or more`);
}

/** @throws EtcdError unless `value` is a finite number above 0. */
export function checkPositive(value: number, argument: string, unit: string): number {
  if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
  throw invalidInput(argument, show(value), `a number of ${unit} above 0`);
}

/** What was given for an argument, for an error. Of what is no number only the kind: it may be a secret, or a key. */
export function show(value: unknown): string {
  if (typeof value === 'bigint') return `${value}n`;
  return typeof value === 'number' ? `the number ${value}` : describeType(value);
}

const UINT64_MAX = 2n ** 64n - 1n;

/** Numbers of members and clusters are unsigned. @throws EtcdError unless `value` is a bigint that uint64 holds. */
export function checkUint64(value: bigint, argument: string): bigint {
  if (typeof value === 'bigint' && value >= 0n && value <= UINT64_MAX) return value;
  throw invalidInput(argument, show(value), 'a bigint from 0 to 2^64 - 1');
}

/** @throws EtcdError unless `value` is a string of at least one character. */
export function checkName(value: string, argument: string): string {
  if (typeof value === 'string' && value !== '') return value;
  throw invalidInput(argument, show(value), 'a string, not empty');
}

/** The value that a name of a table stands for. @throws EtcdError where the table has no such name. */
export function checkChoice<T>(table: Readonly<Record<string, T>>, name: string, argument: string): T {
  if (typeof name === 'string' && Object.hasOwn(table, name)) return table[name] as T;
  throw invalidInput(argument, show(name), Object.keys(table).join(', '));
}

/** @throws EtcdError unless there is none, or it is an AbortSignal. */
export function checkSignal(signal: AbortSignal | undefined): void {
  if (signal === undefined || typeof signal?.addEventListener === 'function') return;
  throw invalidInput('signal', show(signal), 'an AbortSignal');
}

/** @throws EtcdError unless it is a list; none is an empty one. */
export function checkList<T>(list: readonly T[] | undefined, argument: string): readonly T[] {
  if (list === undefined || Array.isArray(list)) return list ?? [];
  throw invalidInput(argument, show(list), 'a list');
}

/** @throws EtcdError unless it can be called. */
export function checkFunction(value: unknown, argument: string): void {
  if (typeof value !== 'function') throw invalidInput(argument, show(value), 'a function');
}

/** By what it can do: several copies of this package may be in one program. @throws EtcdError unless it can. */
export function checkCan<T>(value: T, method: keyof T & string, argument: string, allowed: string): T {
  if (typeof (value as { readonly [name: string]: unknown } | null | undefined)?.[method] === 'function') return value;
  throw invalidInput(argument, show(value), allowed);
}
