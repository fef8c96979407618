import { describeType } from './bytes.js';
import { type EtcdError, invalidInput } from './etcd-error.js';

// The functions in this file check arguments. Each `check…` function throws an EtcdError with reason `InvalidInput` if
// the value is not allowed. Most of them return the checked value.

const INT64_MAX = 2n ** 63n - 1n;
const UINT64_MAX = 2n ** 64n - 1n;

/** Describes a value for an error message. Shows numbers, but only the type of any other value, which may be secret. */
export function show(value: unknown): string {
  if (typeof value === 'bigint') return `${value}n`;
  return typeof value === 'number' ? `the number ${value}` : describeType(value);
}

/**
 * A revision, a version or the ID of a lease, as an argument: a bigint, or a number that is a safe integer. Results
 * contain bigints.
 */
export type Int64Like = bigint | number;

/** Checks that the value is an integer from `least` to the maximum int64. Returns it as a bigint. */
export function checkInt64(value: Int64Like, argument: string, least = 0n): bigint {
  const integer = Number.isSafeInteger(value) ? BigInt(value) : value;
  if (typeof integer === 'bigint' && integer >= least && integer <= INT64_MAX) return integer;
  throw invalidInput(
    argument,
    show(value),
    `an integer from ${least} to 2^63 - 1, as a bigint or as a number that is safe`,
  );
}

/** Converts an optional argument, which `checkInt64` has checked, to a bigint. */
export function int64Of(value: Int64Like | undefined): bigint | undefined {
  return value === undefined ? undefined : BigInt(value);
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

export function checkPositiveCount(value: number, argument: string): number {
  return checkCount(value, argument, 1);
}

/** Checks that the value is a finite number of milliseconds above 0. */
export function checkMs(value: number, argument: string): number {
  return checkPositive(value, argument, 'milliseconds');
}

/** Checks that the value is a finite number above 0. `unit` is the unit of the value, for the error message. */
export function checkPositive(value: number, argument: string, unit: string): number {
  if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
  throw invalidInput(argument, show(value), `a number of ${unit} above 0`);
}

export function checkBoolean(value: boolean, argument: string): boolean {
  if (typeof value === 'boolean') return value;
  throw invalidInput(argument, show(value), 'true or false');
}

export function checkText(value: string, argument: string): string {
  if (typeof value === 'string') return value;
  throw invalidInput(argument, show(value), 'a string');
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

/** Returns a check that the value is a name in `table`. */
export function oneOf(table: Readonly<Record<string, unknown>>): Check {
  return (name: string, argument) => checkChoice(table, name, argument);
}

/** Accepts every value. Use this check for an option whose value the function with the option checks itself. */
export function checkedLater(): void {}

/** Returns a table that maps each of the names to `checkedLater`. */
export function checkedLaterAll<const Name extends string>(...names: readonly Name[]): Readonly<Record<Name, Check>> {
  return Object.fromEntries(names.map((name) => [name, checkedLater])) as unknown as Record<Name, Check>;
}

/**
 * Checks that the value is an array. Returns a copy, because the caller may change its array later. The copy has no
 * gaps: an element that a sparse array lacks is `undefined`, which the check of the elements refuses.
 */
export function checkList<T>(list: readonly T[], argument: string, allowed = 'a list'): readonly T[] {
  if (Array.isArray(list)) return Array.from<T>(list);
  throw invalidInput(argument, show(list), allowed);
}

/** The option `signal` of a function. As in `fetch`, null means that there is no signal. */
export type SignalOption = AbortSignal | null | undefined;

export function checkSignal(signal: SignalOption, argument = 'signal'): void {
  if (signal === undefined || signal === null) return;
  if (typeof signal !== 'object' || !('aborted' in signal) || typeof signal.addEventListener !== 'function')
    throw invalidInput(argument, show(signal), 'an AbortSignal');
}

export function checkFunction(value: unknown, argument: string): void {
  if (typeof value !== 'function') throw invalidInput(argument, show(value), 'a function');
}

/**
 * The last arguments of a function that calls a function of the program: `action`, and before it the options, which the
 * caller may leave out.
 */
export type ActionLast<Options, Action> =
  | readonly [action: Action]
  | readonly [options: Options | undefined, action: Action];

/** Returns the options and the action. `argument` is the name of the action in the message of an error. */
export function actionLast<Options extends object, Action>(
  last: ActionLast<Options, Action>,
  argument: string,
): readonly [Options, Action] {
  const [options = {} as Options, action] = last.length === 1 ? [undefined, last[0]] : last;
  checkAction(action, argument);
  return [options, action];
}

/** Checks the last argument of a function that calls a function of the program. */
export function checkAction(action: unknown, argument: string): void {
  if (typeof action !== 'function') throw invalidInput(argument, show(action), 'a function, as the last argument');
}

/**
 * Whether the value is an object with this method. `instanceof` would return false for an object from another copy of
 * this package, and a program may load several copies.
 */
export function can<T>(value: unknown, method: keyof T & string): value is T {
  return typeof (value as Partial<T> | null | undefined)?.[method] === 'function';
}

/** Checks that the value is an object with this method. */
export function checkCan<T>(value: T, method: keyof T & string, argument: string, allowed: string): T {
  if (can<T>(value, method)) return value;
  throw invalidInput(argument, show(value), allowed);
}

/** A function that throws an EtcdError with reason `InvalidInput` if the value of the argument is not allowed. */
export type Check = (value: never, argument: string) => unknown;

/**
 * The names of all options of a function, each with a check of its value. A program needs this table, because types do
 * not exist at run time.
 */
type Checks = Readonly<Record<string, Check>>;

/**
 * The property names of a type. For a union, the property names of all its members. Leaves out properties that can only
 * be `undefined`, because an options type declares such a property to forbid the name, and properties with symbols.
 */
type NameOf<T> = T extends unknown ? { [K in keyof T]-?: T[K] extends undefined ? never : K }[keyof T & string] : never;

/** Makes the compiler refuse a table that lacks a name of `T`, or contains a name that `T` does not have. */
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
 * Throws if the caller passes an option that the function `what` does not have, or a value that the check of the option
 * refuses. An ignored option would be dangerous: the program might put a key without its lease, or watch one key
 * instead of a prefix. A value of `undefined` is allowed for every name, because programs spread objects that contain
 * such names.
 */
export function checkOptions<T extends object, N extends Checks>(
  options: T | undefined,
  checks: N & Exact<N, T>,
  what: string,
  hints?: Hints,
): void {
  if (options !== undefined) check(options, checks, 'options', what, hints);
}

/** Does the same as `checkOptions` for options that the caller must not leave out. */
export function checkGivenOptions<T extends object, N extends Checks>(
  options: T,
  checks: N & Exact<N, T>,
  what: string,
): void {
  check(options, checks, 'options', what);
}

/** Does the same as `checkOptions` for an argument that has another name than `options` and is not optional. */
export function checkFields<T extends object, N extends Checks>(
  fields: T,
  checks: N & Exact<N, T>,
  argument: string,
): void {
  check(fields, checks, argument, '');
}

/**
 * Throws unless `given` is an object, each of its property names is in `checks` or harmless (see `isHarmless`), and
 * each value passes its check. This function must take only a few nanoseconds per property, because every get and put
 * calls it.
 */
function check(given: object, checks: Checks, argument: string, what: string, hints: Hints = {}): void {
  if (typeof given === 'object' && given !== null) {
    let isEmpty = true;
    for (const name in given) {
      isEmpty = false;
      const value = (given as Readonly<Record<string, unknown>>)[name];
      if (value === undefined) continue;
      if (Object.hasOwn(checks, name)) checks[name]?.(value as never, what === '' ? `${argument}.${name}` : name);
      else if (!isHarmless(given, name)) throw unknownName(name, checks, argument, what, hints);
    }
    if (isEmpty ? isPlain(given) : !(Symbol.iterator in given)) return;
  }
  const known = Object.keys(checks).join(', ');
  throw invalidInput(argument, show(given) + forWhat(what), `an object with only these properties: ${known}`);
}

/**
 * Whether the object is not an instance of a class. An instance without own properties, such as a `Map`, a `Promise` or
 * an empty array, is never a valid options object.
 */
export function isPlain(given: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(given);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Whether an unknown name can be ignored, because the program has added it to `Object.prototype`. */
function isHarmless(given: object, name: string): boolean {
  return name in Object.prototype && !Object.hasOwn(given, name);
}

/** Matches a name that may be an option. An error shows no other name, because such a name may be a key or a secret. */
const SHOWN_NAME = /^(?=.{1,32}$)[a-z]+(?:_[a-z]+)*$/i;

function unknownName(name: string, checks: Checks, argument: string, what: string, hints: Hints): EtcdError {
  const known = Object.keys(checks);
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

/** Whether one name contains the other. Ignores case and underscores. */
function isSimilar(given: string, known: string): boolean {
  const [a, b] = [given, known].map((name) => name.toLowerCase().replaceAll('_', '')) as [string, string];
  return Math.min(a.length, b.length) > 2 && (a.includes(b) || b.includes(a));
}

/** The maximum delay in milliseconds: about a hundred years. */
const MAX_DELAY_MS = 3_200_000_000_000;

/** Returns the delay in whole milliseconds. @throws EtcdError with reason `InvalidInput` if it is not allowed. */
export function checkDelay(delayMs: number, argument = 'delayMs'): number {
  if (typeof delayMs === 'number' && delayMs >= 0 && delayMs <= MAX_DELAY_MS) return Math.ceil(delayMs);
  throw invalidInput(argument, show(delayMs), `a number of milliseconds from 0 to ${MAX_DELAY_MS}`);
}
