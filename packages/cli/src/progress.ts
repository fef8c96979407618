import { monotonicMs } from '../../../src/internal.js';
import type { Io } from './io.js';
import type { Sink } from './output.js';

/** Minimum time in milliseconds between two updates of the status line on a terminal. */
const TERMINAL_INTERVAL_MS = 100;
/** Minimum time in milliseconds between two lines where standard error is not a terminal, such as in a log. */
const LOG_INTERVAL_MS = 10_000;
/** Moves the cursor to the start of the line, and erases the line. */
const ERASE = '\r\x1b[K';

/**
 * Shows on standard error how far a command is: on a terminal as one line that is updated, and elsewhere as a new line
 * at most every `LOG_INTERVAL_MS`. The first such line appears after this interval, so that a short command prints
 * none.
 */
export class Progress {
  /** Standard error, for other messages of the command. Erases the status line before each message. */
  readonly stderr: Sink;
  readonly #isTerminal: boolean;
  readonly #sink: Sink;
  #isShown = false;
  #lastMs: number;

  constructor({ stderr }: Pick<Io, 'stderr'>) {
    this.#sink = stderr;
    this.#isTerminal = stderr.isTTY ?? false;
    this.#lastMs = this.#isTerminal ? Number.NEGATIVE_INFINITY : monotonicMs();
    this.stderr = {
      isTTY: this.#isTerminal,
      write: (data) => {
        this.erase();
        return stderr.write(data);
      },
    };
  }

  /** Shows the text, which must fit into one line of a terminal, unless the last text was shown shortly before. */
  show(text: () => string): void {
    const nowMs = monotonicMs();
    if (nowMs - this.#lastMs < (this.#isTerminal ? TERMINAL_INTERVAL_MS : LOG_INTERVAL_MS)) return;
    this.#lastMs = nowMs;
    this.#sink.write(this.#isTerminal ? `${ERASE}${text()}` : `etcdwire: ${text()}\n`);
    this.#isShown = this.#isTerminal;
  }

  /** Erases the status line. The next call of `show` writes it again. */
  erase(): void {
    if (!this.#isShown) return;
    this.#sink.write(ERASE);
    this.#isShown = false;
    this.#lastMs = Number.NEGATIVE_INFINITY;
  }
}

/** Formats a number of keys for a status line, such as "1 key" or "12,000 keys". */
export function keysText(count: number): string {
  return `${count.toLocaleString('en')} ${count === 1 ? 'key' : 'keys'}`;
}
