import type { EtcdError } from '../errors/etcd-error.js';

/**
 * What is of use to whoever looks for a cause. JSON can hold it. No key, value, token or password is in it. `problem` is
 * the text of an error, in a server's own words where the server sent it.
 */
export type LogDetails = Readonly<Record<string, string | number | readonly string[] | undefined>>;

/** Whatever takes lines: `console` does. What it throws is thrown away. */
export interface Logger {
  /** What is of use to whoever looks for something already. */
  debug?(message: string, details: LogDetails): void;
  /** What changed, and is in order. */
  info?(message: string, details: LogDetails): void;
  /** What failed, or was lost. */
  warn?(message: string, details: LogDetails): void;
}

/** A logger whose methods take the details first, as those of pino and bunyan do. */
export interface ObjectFirstLogger {
  /** As `Logger.debug`. */
  debug?(details: LogDetails, message: string): void;
  /** As `Logger.info`. */
  info?(details: LogDetails, message: string): void;
  /** As `Logger.warn`. */
  warn?(details: LogDetails, message: string): void;
}

/**
 * Adapts a logger that takes the details first: pino and bunyan drop the details of a line whose message comes first.
 *
 * @example
 * ```ts
 * const etcd = new Client({ endpoints, logger: objectFirst(pino()) });
 * ```
 */
export function objectFirst(logger: ObjectFirstLogger): Logger {
  return {
    debug: (message, details) => logger.debug?.(details, message),
    info: (message, details) => logger.info?.(details, message),
    warn: (message, details) => logger.warn?.(details, message),
  };
}

/** The details of a stream that has ended, with this error or without one. */
export function causeOf(error: EtcdError | undefined): LogDetails {
  if (error === undefined) return { problem: 'the server ended the stream' };
  return { reason: error.reason, problem: error.problem, endpoint: error.endpoint };
}

/** Tells the logger, if there is one. */
export function log(logger: Logger | undefined, level: keyof Logger, message: string, details: LogDetails): void {
  if (logger === undefined) return;
  try {
    const logging: unknown = logger[level]?.(message, details);
    // Nothing here may end for want of a line in a log, nor the process.
    if (logging instanceof Promise) logging.catch(() => {});
  } catch {
    // The same.
  }
}

/**
 * Tells of a wait once: a warning when it begins, whatever fails meanwhile, and a line when it is over. Each message says
 * what waits, as `watches wait for a server`.
 */
export class WaitLog {
  readonly #logger: Logger | undefined;
  readonly #what: string;
  #waiting = false;

  /** `what` names those that wait, in the plural. */
  constructor(logger: Logger | undefined, what: string) {
    this.#logger = logger;
    this.#what = what;
  }

  waits(details: LogDetails): void {
    if (this.#waiting) return;
    this.#waiting = true;
    log(this.#logger, 'warn', `${this.#what} wait for a server`, details);
  }

  goOn(details: LogDetails): void {
    if (!this.#waiting) return;
    this.#waiting = false;
    log(this.#logger, 'info', `${this.#what} go on`, details);
  }

  /** Nothing is left that waits. */
  reset(): void {
    this.#waiting = false;
  }
}
