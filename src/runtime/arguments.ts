import { type EtcdError, invalidInput } from '../errors/etcd-error.js';
import { describeType } from './bytes.js';

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

/** @throws EtcdError, reason `InvalidInput`, unless `value` is a whole number, exact, and no less than `least`. */
export function checkCount(value: number, argument: string, least = 0): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw invalidInput(argument, show(value), `a whole number, ${least} or more`);
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

/** Names of options. Each options type has such a table next to it, because types are gone when the program runs. */
type Names = Readonly<Record<string, true>>;

/**
 * The property names of a type; of a union, those of all its members. A property that can only be `undefined` does not
 * count: an options type uses it to refuse a name.
 */
type NameOf<T> = T extends unknown ? { [K in keyof T]-?: T[K] extends undefined ? never : K }[keyof T] : never;

/** Makes the compiler refuse a table that lacks a name of `T`, or that has a name which `T` does not have. */
type Exact<N, T> = [keyof N] extends [NameOf<T>]
  ? [NameOf<T>] extends [keyof N]
    ? unknown
    : { readonly 'the table lacks': Exclude<NameOf<T>, keyof N> }
  : { readonly 'the table has too many': Exclude<keyof N, NameOf<T>> };

/** What to write instead of names that are likely mistakes. */
type Hints = Readonly<Record<string, string>>;

/** Hints for functions that take a key or a range of keys. */
export const KEYS_HINTS: Hints = { prefix: 'to name all keys with a prefix, pass prefix(key) as the key' };

/**
 * Refuses options that `what` does not have. Plain JavaScript has no compiler to do so, and an option that is ignored is
 * dangerous: a put without its lease, a watch of one key in place of a prefix. An unknown name whose value is `undefined`
 * passes, because programs spread objects with such leftovers.
 *
 * @throws EtcdError, reason `InvalidInput`.
 */
export function checkOptions<T extends object, N extends Names>(
  options: T | undefined,
  names: N & Exact<N, T>,
  what: string,
  hints?: Hints,
): void {
  if (options !== undefined) check(options, names, 'options', what, hints);
}

/** As `checkOptions`, for an argument, or a part of one, that is an object with a name of its own. */
export function checkFields<T extends object, N extends Names>(
  fields: T,
  names: N & Exact<N, T>,
  argument: string,
  hints?: Hints,
): void {
  check(fields, names, argument, '', hints);
}

/** Takes a few nanoseconds a name: it is part of every get and put. */
function check(given: object, names: Names, argument: string, what: string, hints: Hints | undefined): void {
  if (typeof given === 'object' && given !== null) {
    let isEmpty = true;
    for (const name in given) {
      if (names[name] !== true && !isHarmless(given, name)) throw unknownName(name, names, argument, what, hints);
      isEmpty = false;
    }
    // A Map, or an empty list.
    if (!isEmpty || !(Symbol.iterator in given)) return;
  }
  const known = Object.keys(names).join(', ');
  throw invalidInput(argument, show(given) + forWhat(what), `an object with ${known}`);
}

/** Whether the name has no value, or comes from a program that extends every object. */
function isHarmless(given: object, name: string): boolean {
  if ((given as Readonly<Record<string, unknown>>)[name] === undefined) return true;
  return name in Object.prototype && !Object.hasOwn(given, name);
}

/** A program writes the names of options, and they look like this. Anything else may be a key or a secret. */
const SHOWN_NAME = /^(?=.{1,32}$)[a-z]+(?:_?[a-z]+)*$/i;

function unknownName(name: string, names: Names, argument: string, what: string, hints: Hints = {}): EtcdError {
  const known = Object.keys(names);
  const shown = SHOWN_NAME.test(name) ? `the unknown option ${name}` : 'an unknown option';
  const hint = Object.hasOwn(hints, name) ? hints[name] : hintOf(name, known);
  return invalidInput(argument, shown + forWhat(what), known.join(', ') + (hint === undefined ? '' : `; ${hint}`));
}

function forWhat(what: string): string {
  return what && ` for ${what}`;
}

function hintOf(name: string, known: readonly string[]): string | undefined {
  const near = known.find((other) => isNear(name, other));
  if (near !== undefined) return `did you mean ${near}?`;
  return /^timeout/i.test(name) && known.includes('signal')
    ? 'to set a time limit: signal: AbortSignal.timeout(ms)'
    : undefined;
}

/** Whether one name is part of the other, or one letter is wrong, missing or swapped, in whatever case. */
function isNear(given: string, known: string): boolean {
  const [a, b] = [given, known].map((name) => name.toLowerCase().replaceAll('_', '')) as [string, string];
  if (Math.min(a.length, b.length) < 3) return false;
  if (a.includes(b) || b.includes(a)) return true;
  return a.length > 3 && shortened(a).some((each) => shortened(b).includes(each));
}

/** The text, and the text without each of its letters. */
function shortened(text: string): string[] {
  return [text, ...Array.from(text, (_, index) => text.slice(0, index) + text.slice(index + 1))];
}
