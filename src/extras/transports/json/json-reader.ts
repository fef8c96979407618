/** The error for a text that is not JSON. The message is that of Go's `encoding/json` for the common mistakes. */
export class JsonSyntaxError extends Error {
  override readonly name = 'JsonSyntaxError';
}

/** Maximum depth of nested arrays and objects. etcd's messages have a depth of at most 100. */
const MAX_DEPTH = 500;
const WHITESPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const LITERALS = { true: true, false: false, null: null } as const;

/**
 * Reads the JSON values that a text contains one after the other. Differs from `JSON.parse` in three ways: it returns
 * an integer that a `number` cannot hold exactly as a `bigint`, it refuses an object with two equal names, and it
 * refuses values that are nested deeper than `MAX_DEPTH`.
 */
export class JsonReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /**
   * Returns the next value in a tuple, or undefined at the end of the text.
   *
   * @throws JsonSyntaxError if the next value is malformed or incomplete.
   */
  next(): readonly [unknown] | undefined {
    this.#skipWhitespace();
    return this.#at === this.#text.length ? undefined : [this.#value(0)];
  }

  #value(depth: number): unknown {
    if (depth > MAX_DEPTH) throw new JsonSyntaxError('exceeded max depth');
    const first = this.#peek();
    if (first === '{') return this.#object(depth);
    if (first === '[') return this.#array(depth);
    if (first === '"') return this.#string();
    for (const [literal, value] of Object.entries(LITERALS))
      if (this.#text.startsWith(literal, this.#at)) {
        this.#at += literal.length;
        return value;
      }
    const number = this.#match(NUMBER);
    if (number === '') throw this.#unexpected('looking for beginning of value');
    const value = Number(number);
    return Number.isSafeInteger(value) || !/^-?\d+$/.test(number) ? value : BigInt(number);
  }

  #object(depth: number): Record<string, unknown> {
    const object: Record<string, unknown> = Object.create(null);
    this.#at += 1;
    for (let isFirst = true; ; isFirst = false) {
      if (isFirst && this.#take('}')) return object;
      if (this.#peek() !== '"') throw this.#unexpected('looking for beginning of object key string');
      const name = this.#string();
      if (name in object) throw new JsonSyntaxError(`duplicate field ${JSON.stringify(name)}`);
      if (!this.#take(':')) throw this.#unexpected('after object key');
      this.#skipWhitespace();
      object[name] = this.#value(depth + 1);
      if (this.#take('}')) return object;
      if (!this.#take(',')) throw this.#unexpected('after object key:value pair');
      this.#skipWhitespace();
    }
  }

  #array(depth: number): unknown[] {
    const array: unknown[] = [];
    this.#at += 1;
    if (this.#take(']')) return array;
    for (;;) {
      this.#skipWhitespace();
      array.push(this.#value(depth + 1));
      if (this.#take(']')) return array;
      if (!this.#take(',')) throw this.#unexpected('after array element');
    }
  }

  #string(): string {
    const start = this.#at;
    let end = start;
    do {
      end = this.#text.indexOf('"', end + 1);
      if (end === -1) throw new JsonSyntaxError('unexpected EOF');
    } while (this.#isEscaped(end, start));
    this.#at = end + 1;
    try {
      return JSON.parse(this.#text.slice(start, this.#at)) as string;
    } catch {
      throw new JsonSyntaxError('invalid character in string literal');
    }
  }

  /** Whether the quotation mark at `at` follows an odd number of backslashes. */
  #isEscaped(at: number, start: number): boolean {
    let before = at - 1;
    while (before > start && this.#text[before] === '\\') before -= 1;
    return (at - before) % 2 === 0;
  }

  /** Skips whitespace, and then the character, if it comes next. Returns whether it came next. */
  #take(character: string): boolean {
    this.#skipWhitespace();
    if (this.#text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  #peek(): string | undefined {
    return this.#text[this.#at];
  }

  #skipWhitespace(): void {
    this.#match(WHITESPACE);
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found = ''] = pattern.exec(this.#text) ?? [];
    this.#at += found.length;
    return found;
  }

  #unexpected(where: string): JsonSyntaxError {
    const character = this.#peek();
    if (character === undefined) return new JsonSyntaxError('unexpected EOF');
    return new JsonSyntaxError(`invalid character '${character}' ${where}`);
  }
}
