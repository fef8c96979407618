import { type EtcdError, invalidInput } from '../errors/etcd-error.js';
import { describeType } from './bytes.js';

// The functions in this file check arguments. Each `check…` function throws an EtcdError with reason `InvalidInput` if
// the value is not allowed. Most of them return the checked value.

const INT64_MAX = 2n ** 63n - 1n;
const UINT64_MAX = 2n ** 64n - 1n;

/** Describes a value for an error message. Shows only the type of a value that is not a number, as it may be secret. */
export function show(value: unknown): string {
  if (typeof value === 'bigint') return `${value}n`;
  return typeof value === 'number' ? `the number ${value}` : describeType(value);
}

/** Checks that the value is a bigint from `least` to the maximum int64. */
export function checkInt64(value: bigint, argument: string, least = 0n): bigint {
  if (typeof value === 'bigint' && value >= least && value <= INT64_MAX) return value;
  throw invalidInput(argument, show(value), `a bigint from ${least} to 2^63 - 1`);
}

export function checkOptionalInt64(value: bigint | undefined, argument: string): bigint | undefined {
  return value === undefined ? undefined : checkInt64(value, argument);
}

/** Checks that the value is a bigint in the range of uint64, such as the ID of a member or a cluster. */
export function checkUint64(value: bigint, argument: string): bigint {
  if (typeof value === 'bigint' && value >= 0n && value <= UINT64_MAX) return value;
  throw invalidInput(argument, show(value), 'a bigint from 0 to 2^64 - 1');
}

/** Checks that the value is a safe integer of at least `least`. */
export function checkCount(value: number, argument: string, least = 0): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw invalidInput(argument, show(value), `a whole number, ${least} or more`);
}

/** Checks that the value is a finite number above 0. `unit` is the unit of the value, for the error message. */
export function checkPositive(value: number, argument: string, unit: string): number {
  if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
  throw invalidInput(argument, show(value), `a number of ${unit} above 0`);
}

/** Checks that the value is a non-empty string. */
export function checkName(value: string, argument: string): string {
  if (typeof value === 'string' && value !== '') return value;
  throw invalidInput(argument, show(value), 'a non-empty string');
}

/** Checks that `name` is a name in `table`, and returns the value of this name. */
export function checkChoice<T>(table: Readonly<Record<string, T>>, name: string, argument: string): T {
  if (typeof name === 'string' && Object.hasOwn(table, name)) return table[name] as T;
  throw invalidInput(argument, show(name), Object.keys(table).join(', '));
}

/** Checks that the value is an array or undefined. Returns an empty array for undefined. */
export function checkList<T>(list: readonly T[] | undefined, argument: string): readonly T[] {
  if (list === undefined || Array.isArray(list)) return list ?? [];
  throw invalidInput(argument, show(list), 'a list');
}

/** Checks that the value is an AbortSignal or undefined. */
export function checkSignal(signal: AbortSignal | undefined): void {
  if (signal === undefined || typeof signal?.addEventListener === 'function') return;
  throw invalidInput('signal', show(signal), 'an AbortSignal');
}

export function checkFunction(value: unknown, argument: string): void {
  if (typeof value !== 'function') throw invalidInput(argument, show(value), 'a function');
}

/**
 * Checks that the value is an object with this method. An `instanceof` check would refuse an object from another copy
 * of this package, and a program may load several copies.
 */
export function checkCan<T>(value: T, method: keyof T & string, argument: string, allowed: string): T {
  if (typeof (value as { readonly [name: string]: unknown } | null | undefined)?.[method] === 'function') return value;
  throw invalidInput(argument, show(value), allowed);
}

/**
 * A table of option names, for checks at run time. Each options type has such a table next to it, because types do not
 * exist at run time.
 */
type Names = Readonly<Record<string, true>>;

/**
 * The property names of a type. For a union, the property names of all its members. Leaves out properties that can only
 * be `undefined`, because an options type declares such a property to forbid the name.
 */
type NameOf<T> = T extends unknown ? { [K in keyof T]-?: T[K] extends undefined ? never : K }[keyof T] : never;

/**
 * A type that makes the compiler refuse a table that lacks a name of `T`, or contains a name that `T` does not have.
 */
type Exact<N, T> = [keyof N] extends [NameOf<T>]
  ? [NameOf<T>] extends [keyof N]
    ? unknown
    : { readonly 'the table lacks': Exclude<NameOf<T>, keyof N> }
  : { readonly 'the table has too many': Exclude<keyof N, NameOf<T>> };

/** For each name that callers are likely to use by mistake, a hint that says what to write instead. */
type Hints = Readonly<Record<string, string>>;

/** Hints for functions that accept a key or a range of keys. */
export const KEYS_HINTS: Hints = { prefix: 'to name all keys with a prefix, pass prefix(key) as the key' };

/**
 * Throws if the caller passes options that the function `what` does not have. Plain JavaScript has no compiler that
 * refuses such options, and it would be dangerous to ignore them, because the program might put a key without its
 * lease, or watch one key instead of a prefix. An unknown name whose value is `undefined` is allowed, because programs
 * spread objects that contain such names.
 */
export function checkOptions<T extends object, N extends Names>(
  options: T | undefined,
  names: N & Exact<N, T>,
  what: string,
  hints?: Hints,
): void {
  if (options !== undefined) check(options, names, 'options', what, hints);
}

/** Does the same as `checkOptions` for an argument that has another name than `options` and is not optional. */
export function checkFields<T extends object, N extends Names>(
  fields: T,
  names: N & Exact<N, T>,
  argument: string,
  hints?: Hints,
): void {
  check(fields, names, argument, '', hints);
}

/**
 * Throws unless `given` is an object and each of its property names is in `names` or harmless (see `isHarmless`). This
 * check must take only a few nanoseconds per property, because every get and put calls this function.
 */
function check(given: object, names: Names, argument: string, what: string, hints: Hints | undefined): void {
  if (typeof given === 'object' && given !== null) {
    let isEmpty = true;
    for (const name in given) {
      if (names[name] !== true && !isHarmless(given, name)) throw unknownName(name, names, argument, what, hints);
      isEmpty = false;
    }
    // An iterable without properties is a Map, a Set or an empty array, which is never a valid options object.
    if (!isEmpty || !(Symbol.iterator in given)) return;
  }
  const known = Object.keys(names).join(', ');
  throw invalidInput(argument, show(given) + forWhat(what), `an object with only these properties: ${known}`);
}

/**
 * Whether an unknown name can be ignored: its value is undefined, or the program has added it to `Object.prototype`.
 */
function isHarmless(given: object, name: string): boolean {
  if ((given as Readonly<Record<string, unknown>>)[name] === undefined) return true;
  return name in Object.prototype && !Object.hasOwn(given, name);
}

/** Matches what could be an option name. An error does not show other names, because they may be keys or secrets. */
const SHOWN_NAME = /^(?=.{1,32}$)[a-z]+(?:_?[a-z]+)*$/i;

function unknownName(name: string, names: Names, argument: string, what: string, hints: Hints = {}): EtcdError {
  const known = Object.keys(names);
  const shown = SHOWN_NAME.test(name) ? `the unknown option ${name}` : 'an unknown option';
  const hint = Object.hasOwn(hints, name) ? hints[name] : hintOf(name, known);
  return invalidInput(argument, shown + forWhat(what) + (hint === undefined ? '' : ` (${hint})`), known.join(', '));
}

function forWhat(what: string): string {
  return what && ` for ${what}`;
}

function hintOf(name: string, known: readonly string[]): string | undefined {
  const similar = known.find((other) => isSimilar(name, other));
  if (similar !== undefined) return `did you mean ${similar}?`;
  const isTimeout = /^timeout/i.test(name) && known.includes('signal');
  return isTimeout ? 'to set a time limit, pass { signal: AbortSignal.timeout(ms) }' : undefined;
}

/** Whether one name contains the other, or the names differ in about one letter. Ignores case and underscores. */
function isSimilar(given: string, known: string): boolean {
  const [a, b] = [given, known].map((name) => name.toLowerCase().replaceAll('_', '')) as [string, string];
  if (Math.min(a.length, b.length) < 3) return false;
  if (a.includes(b) || b.includes(a)) return true;
  return a.length > 3 && shortened(a).some((each) => shortened(b).includes(each));
}

/** Returns the text, and every text that results when one of its letters is removed. */
function shortened(text: string): string[] {
  return [text, ...Array.from(text, (_, index) => text.slice(0, index) + text.slice(index + 1))];
}
