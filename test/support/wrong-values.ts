// This file lists values that a caller in plain JavaScript may wrongly pass. It also lists the kinds of arguments, each
// with the values from this list that the kind accepts.

const OTHER_CLASS = class Other {
  readonly field = 1;
};

function transferred(): Uint8Array {
  const bytes = new Uint8Array(8);
  structuredClone(bytes, { transfer: [bytes.buffer] });
  return bytes;
}

/**
 * Functions that create wrong values. Each call under test gets a new value, so no call can change the value of another
 * call.
 */
export const WRONG = {
  undefined: () => undefined,
  null: () => null,
  NaN: () => Number.NaN,
  Infinity: () => Number.POSITIVE_INFINITY,
  '-Infinity': () => Number.NEGATIVE_INFINITY,
  '-1': () => -1,
  '1.5': () => 1.5,
  '2^53': () => 2 ** 53,
  '-1n': () => -1n,
  '2^64 as a bigint': () => 2n ** 64n,
  'an empty string': () => '',
  'a string with NUL': () => 'a\0b',
  'a lone surrogate': () => '\ud800',
  true: () => true,
  'a symbol': () => Symbol('wrong'),
  'a function': () => () => {},
  'an empty object': () => Object.freeze({}),
  'an object without a prototype': () => Object.create(null),
  'an empty array': () => [],
  'a sparse array': () => new Array(2),
  'an array of undefined': () => [undefined],
  'a Date': () => new Date(0),
  'a Map': () => new Map([['key', 'value']]),
  'a Promise': () => Promise.resolve({}),
  'a RegExp': () => /x/,
  'an AbortController': () => new AbortController(),
  bytes: () => new Uint8Array([1, 2]),
  'bytes that were transferred': transferred,
  'an ArrayBuffer': () => new ArrayBuffer(8),
  'a SharedArrayBuffer': () => new SharedArrayBuffer(8),
  'a Float64Array': () => new Float64Array([1]),
  'an instance of another class': () => new OTHER_CLASS(),
} as const satisfies Readonly<Record<string, () => unknown>>;

export type WrongName = keyof typeof WRONG;

/** A kind of argument: a right value, and the values of `WRONG` that this kind accepts. */
export interface Kind {
  readonly right: unknown;
  readonly accepts: readonly WrongName[];
  /** The options of an argument that is an options object. */
  readonly fields?: Readonly<Record<string, Kind>>;
}

function kind(right: unknown, ...accepts: readonly WrongName[]): Kind {
  return { right, accepts };
}

export const KEY = kind('key', 'a string with NUL', 'bytes');
export const VALUE = kind('value', 'an empty string', 'a string with NUL', 'bytes');
export const NAME = kind('name', 'a string with NUL');
export const TEXT = kind('text', 'an empty string', 'a string with NUL', 'a lone surrogate');
/** A non-empty string that never reaches the bytes of a key. */
export const TEXT_NOT_EMPTY = kind('text', 'a string with NUL', 'a lone surrogate');
export const INT64 = kind(1n);
/** Every bigint in `WRONG` is outside the range of uint64. */
export const UINT64 = kind(1n);
export const COUNT = kind(1);
export const MS = kind(5, '1.5', '2^53');
export const TIMEOUT = kind(5_000, '1.5', '2^53', 'Infinity');
export const DRAIN = kind(5, '1.5', '2^53', 'Infinity');
export const BOOLEAN = kind(true, 'true');
export const FUNCTION = kind(() => {}, 'a function');
/** As in `fetch`, null means that there is no signal. */
export const SIGNAL = kind(new AbortController().signal, 'null');
/** The ID that a new lease gets. */
export const LEASE_ID = kind(1n);
/** An existing lease, whose ID may be negative. */
export const LEASE = kind(1n, '-1n', '-1');
export const TTL = kind(60);
export const ANY: Kind = { right: 'any', accepts: Object.keys(WRONG) as WrongName[] };

export const LIST = kind([], 'an empty array');

const PRIMITIVES: ReadonlySet<string> = new Set(['undefined', 'number', 'bigint', 'string', 'boolean']);
/** The owner of a reentrant lock: any object, symbol or string. */
export const OWNER = kind(
  'owner',
  'an empty string',
  'a string with NUL',
  'a lone surrogate',
  ...(Object.keys(WRONG) as WrongName[]).filter(
    (name) => name !== 'null' && !PRIMITIVES.has(typeof WRONG[name]()) && name !== 'a function',
  ),
);

export function right(value: unknown, ...accepts: readonly WrongName[]): Kind {
  return kind(value, ...accepts);
}

export function optional(of: Kind): Kind {
  return { ...of, accepts: [...of.accepts, 'undefined'] };
}

/** Options that may be left out. An object without options is right, too. */
export function options(fields: Readonly<Record<string, Kind>>, given: object | undefined = undefined): Kind {
  return {
    right: given,
    accepts: ['undefined', 'an empty object', 'an object without a prototype'],
    fields,
  };
}

/** Options of which some must be given. */
export function required(fields: Readonly<Record<string, Kind>>, given: object): Kind {
  return { right: given, accepts: [], fields };
}

export const LIMITS = { signal: SIGNAL, timeoutMs: TIMEOUT } as const;
export const CALL = { ...LIMITS, endpoint: right('unix:///memory-etcd', ...TEXT.accepts) } as const;
export const WAIT = { signal: SIGNAL, maxWaitMs: TIMEOUT } as const;
