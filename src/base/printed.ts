import { isPlain } from './arguments.js';
import { describeType, toBase64, validTextOf } from './bytes.js';
import { readError } from './etcd-error.js';

/** The name of the method that `console.log` and `util.inspect` of Node.js, Bun and Deno call to print an object. */
export const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/** The options that `util.inspect` passes to the method `INSPECT`. */
interface InspectOptions {
  readonly depth?: number | null | undefined;
  readonly breakLength?: number | undefined;
}

/** `util.inspect`. The caller of the method `INSPECT` passes this function, because not every runtime can import it. */
type Inspect = (value: unknown, options: InspectOptions) => string;

/** The arguments of the method `INSPECT`. `depth` is negative if the object is nested too deeply to be shown. */
export type InspectArguments = readonly [depth: number, options?: InspectOptions, inspect?: Inspect];

/** Returns the text that `console.log` prints for an object: the name of its class and `fields`. */
export function inspected(name: string, fields: object, ...[depth, options = {}, inspect]: InspectArguments): string {
  if (depth < 0) return `[${name}]`;
  // Some libraries for assertions call the method without `inspect`.
  if (inspect === undefined) return `${name} ${JSON.stringify(converted(fields, toPlain))}`;
  // `options.depth` is the depth of the outermost object, and `depth` what is left of it for this object.
  return `${name === 'Object' ? '' : `${name} `}${inspect(fields, { ...options, depth })}`;
}

/**
 * Converts a value so that `JSON.stringify` accepts it. Bigints become decimal strings, because numbers in JSON are
 * exact only up to 2^53. Bytes become text if they are valid UTF-8, and `{ base64 }` otherwise.
 */
function toPlain(value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return value;
  if (value instanceof Uint8Array) return validTextOf(value) ?? { base64: toBase64(value) };
  return Array.isArray(value) ? value.map(toPlain) : converted(value, toPlain);
}

/** Returns an object with the same properties, whose values `convert` has returned. */
function converted(fields: object, convert: (field: unknown) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, convert(field)]));
}

/** The base class of objects that contain bigints or bytes and that a program may write as JSON or print. */
export class Printable {
  /** @internal The class name that `console.log` shows, and that errors show for a wrong argument. */
  static readonly name: string = 'Object';

  /** @internal Returns the fields to write and to print. */
  shown(): object {
    return this;
  }

  /** Returns the fields that `JSON.stringify` writes: bigints as decimal strings, and bytes as text or `{ base64 }`. */
  toJSON(): Record<string, unknown> {
    return converted(this.shown(), toPlain);
  }

  /** @internal */
  [INSPECT](...args: InspectArguments): string {
    return inspected((this.constructor as typeof Printable).name, converted(this.shown(), readable), ...args);
  }
}

/** Returns an object with these fields that a program may write as JSON or print. */
export function printable<Fields extends object>(fields: Fields): Fields {
  return Object.assign(new Printable(), fields);
}

/** Converts bytes that are valid UTF-8 to text, also in lists and in objects that are no instances of a class. */
function readable(value: unknown): unknown {
  if (value instanceof Uint8Array) return validTextOf(value) ?? value;
  if (Array.isArray(value)) return value.map(readable);
  return typeof value === 'object' && value !== null && isPlain(value) ? converted(value, readable) : value;
}

/** Returns the message of an error, or the type of any other value, which may be a secret. Never throws. */
export function messageOf(thrown: unknown): string {
  return readError(thrown)?.message ?? describeType(thrown);
}
const CONTROLS = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Replaces control characters with escapes, because a terminal could execute them, for example to change its title. */
export function escapeControls(text: string): string {
  return text.replace(
    CONTROLS,
    (character) => `\\u${(character.codePointAt(0) as number).toString(16).padStart(4, '0')}`,
  );
}
