/// <reference path="./host.ts" />

// What the client needs of a runtime besides the language (ES2022), for engines that have none of it, such as QuickJS.
// A part that the engine has itself is left as it is. docs/runtimes.md says what the client uses of each.

const engine = globalThis as Record<string, unknown>;

// Clock and random numbers.
engine.performance ??= { now: () => host.nowMs() };
engine.crypto ??= {
  getRandomValues(array: BigUint64Array) {
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(host.randomBytes(array.byteLength));
    return array;
  },
};

// Timers. The program calls `runTimers` in its loop, and sleeps at most as long as this function says.
const timers = new Map<number, { readonly action: () => void; readonly dueMs: number }>();
let lastTimer = 0;
engine.setTimeout ??= (action: (...args: unknown[]) => void, delayMs?: number, ...args: unknown[]) => {
  lastTimer += 1;
  // A delay that is no number, or too long, counts as 0, as in other runtimes.
  const usedMs = Number(delayMs) > 0 && Number(delayMs) < 2 ** 31 ? Number(delayMs) : 0;
  timers.set(lastTimer, { action: () => action(...args), dueMs: host.nowMs() + usedMs });
  return lastTimer;
};
engine.clearTimeout ??= (timer: number) => void timers.delete(timer);

/** Implements `runTimers` of `HostEvents`. */
export function runTimers(): number {
  const nowMs = host.nowMs();
  const due = [...timers].filter(([, { dueMs }]) => dueMs <= nowMs).sort(([, a], [, b]) => a.dueMs - b.dueMs);
  // A timer may clear another one that is due.
  for (const [timer, { action }] of due) if (timers.delete(timer)) action();
  if (timers.size === 0) return -1;
  let nextMs = Number.POSITIVE_INFINITY;
  for (const { dueMs } of timers.values()) nextMs = Math.min(nextMs, dueMs);
  return Math.max(0, nextMs - host.nowMs());
}

engine.queueMicrotask ??= (action: () => void) => void Promise.resolve().then(action);

// Signals.
type Listener = (event: { readonly type: 'abort' }) => void;
if (engine.AbortController === undefined) {
  let abort: (signal: Signal, reason?: unknown) => void;
  class Signal {
    #isAborted = false;
    #reason: unknown;
    readonly #listeners = new Set<Listener>();

    static {
      abort = (signal, reason = named('AbortError', 'This operation was aborted')) => {
        if (signal.#isAborted) return;
        signal.#isAborted = true;
        signal.#reason = reason;
        const listeners = [...signal.#listeners];
        signal.#listeners.clear();
        for (const listener of listeners) listener({ type: 'abort' });
      };
    }

    static abort(reason?: unknown): Signal {
      const signal = new Signal();
      abort(signal, reason);
      return signal;
    }

    static timeout(delayMs: number): Signal {
      const signal = new Signal();
      setTimeout(() => abort(signal, named('TimeoutError', 'The operation timed out')), delayMs);
      return signal;
    }

    get aborted(): boolean {
      return this.#isAborted;
    }

    get reason(): unknown {
      return this.#reason;
    }

    throwIfAborted(): void {
      if (this.aborted) throw this.reason;
    }

    // The only event is `abort`, which comes once.
    addEventListener(_type: 'abort', listener: Listener): void {
      this.#listeners.add(listener);
    }

    removeEventListener(_type: 'abort', listener: Listener): void {
      this.#listeners.delete(listener);
    }
  }
  engine.AbortSignal = Signal;
  engine.AbortController = class {
    readonly signal = new Signal();

    abort(reason?: unknown): void {
      abort(this.signal, reason);
    }
  };
}

function named(name: string, message: string): Error {
  return Object.assign(new Error(message), { name });
}

// UTF-8. A program with long texts should offer functions of its own instead, because these need 0.2 to 0.7 µs for each
// byte in QuickJS.
engine.TextEncoder ??= class {
  encode(text: string): Uint8Array {
    const bytes = new Uint8Array(text.length * 3);
    return bytes.slice(0, this.encodeInto(text, bytes).written);
  }

  encodeInto(text: string, target: Uint8Array): { readonly read: number; readonly written: number } {
    let [read, written] = [0, 0];
    while (read < text.length) {
      let point = text.codePointAt(read) as number;
      const length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
      if (written + length > target.length) break;
      read += length === 4 ? 2 : 1;
      // UTF-8 cannot contain the halves of a surrogate pair.
      if (point >= 0xd800 && point < 0xe000) point = 0xfffd;
      if (length === 1) target[written] = point;
      else {
        for (let index = length - 1; index > 0; index -= 1) {
          target[written + index] = 0x80 | (point & 0x3f);
          point >>= 6;
        }
        target[written] = ((0xf00 >> length) & 0xff) | point;
      }
      written += length;
    }
    return { read, written };
  }
};

/** The number of ASCII characters that are decoded at a time. */
const ASCII_RUN = 4_096;
engine.TextDecoder ??= class {
  readonly #isFatal: boolean;

  constructor(_label: string, { fatal = false }: { readonly fatal?: boolean } = {}) {
    this.#isFatal = fatal;
  }

  decode(bytes: Uint8Array): string {
    let text = '';
    for (let at = 0; at < bytes.length; ) {
      let end = at;
      while (end < bytes.length && end < at + ASCII_RUN && (bytes[end] as number) < 0x80) end += 1;
      if (end > at) text += String.fromCharCode(...bytes.subarray(at, end));
      at = end;
      if (at === bytes.length || (bytes[at] as number) < 0x80) continue;
      const { point, length } = characterAt(bytes, at);
      if (point === undefined && this.#isFatal) throw new TypeError('The encoded data was not valid');
      text += String.fromCodePoint(point ?? 0xfffd);
      at += length;
    }
    return text;
  }
};

interface Character {
  /** The code point. Undefined if the bytes are not UTF-8. */
  readonly point?: number;
  /** Number of its bytes. */
  readonly length: number;
}

function characterAt(bytes: Uint8Array, at: number): Character {
  const first = bytes[at] as number;
  if (first < 0x80) return { point: first, length: 1 };
  if (first < 0xc2 || first > 0xf4) return { length: 1 };
  const length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  // After some first bytes, the second byte has narrower limits, which exclude surrogates and too long encodings.
  let lowest = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  let highest = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  let point = first & (0x7f >> length);
  for (let index = 1; index < length; index += 1) {
    const next = bytes[at + index] ?? 0;
    if (next < lowest || next > highest) return { length: index };
    point = point * 64 + (next & 0x3f);
    [lowest, highest] = [0x80, 0xbf];
  }
  return { point, length };
}

// Base64, for the option `tls.ca` and for JSON.
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
engine.btoa ??= (binary: string) => {
  let text = '';
  for (let at = 0; at < binary.length; at += 3) {
    const [a = 0, b, c] = [...binary.slice(at, at + 3)].map((character) => character.charCodeAt(0));
    const bits = (a << 16) | ((b ?? 0) << 8) | (c ?? 0);
    const digits = [18, 12, 6, 0].map((shift) => DIGITS[(bits >> shift) & 63]);
    text += digits
      .join('')
      .slice(0, c === undefined ? (b === undefined ? 2 : 3) : 4)
      .padEnd(4, '=');
  }
  return text;
};
engine.atob ??= (text: string) => {
  let [binary, bits, count] = ['', 0, 0];
  for (const digit of text.replace(/=+$/, '')) {
    bits = ((bits << 6) | DIGITS.indexOf(digit)) & 0xffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    binary += String.fromCharCode((bits >> count) & 0xff);
  }
  return binary;
};

// The part of URL that endpoints need. It refuses the names of hosts that are not ASCII.
const HTTP_URL = /^(https?:)\/\/([\w.-]+|\[[\da-f:.]+\])(?::(\d{1,5}))?(\/[^?#]*)?$/i;
engine.URL ??= class {
  readonly protocol: string;
  readonly hostname: string;
  readonly port: string;
  readonly pathname: string;

  constructor(text: string) {
    const [, protocol, hostname = '', port = '', pathname = '/'] = HTTP_URL.exec(text) ?? [];
    if (protocol === undefined) throw new TypeError('Invalid URL');
    this.protocol = protocol.toLowerCase();
    this.hostname = hostname.toLowerCase();
    this.port = port;
    this.pathname = pathname;
  }

  static canParse(text: string): boolean {
    const [, , , port = '0'] = HTTP_URL.exec(text) ?? [undefined, '', '', '65536'];
    return Number(port) < 65_536;
  }
};
