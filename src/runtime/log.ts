import { type EtcdError, invalidInput } from '../errors/etcd-error.js';
import { reading, show } from './arguments.js';

/**
 * The details of a log line. `JSON.stringify` accepts them. They contain no key, value, token or password. `problem` is
 * an error text, possibly one from the server.
 */
export type LogDetails = Readonly<Record<string, string | number | readonly string[] | undefined>>;

/**
 * Receives log lines. `console` is a logger. The client ignores errors that a logger throws. If a logger lacks the
 * method of a level, the client does not log lines at that level.
 *
 * @example
 * const logger: Logger = { warn: (message, details) => console.error(message, JSON.stringify(details)) };
 * const etcd = new Client({ endpoints: ['http://127.0.0.1:2379'], logger });
 */
export interface Logger {
  /** Logs events that help to find the cause of a known problem, such as a retried call. */
  debug?(message: string, details: LogDetails): void;
  /** Logs changes that are not a problem, such as new endpoints. */
  info?(message: string, details: LogDetails): void;
  /** Logs failures and losses, such as an unavailable endpoint or a lost lease. */
  warn?(message: string, details: LogDetails): void;
}

/** A logger whose methods accept the details before the message, such as pino and bunyan. */
export interface ObjectFirstLogger {
  /** Logs a line at level `debug`; see `Logger.debug`. */
  debug?(details: LogDetails, message: string): void;
  /** Logs a line at level `info`; see `Logger.info`. */
  info?(details: LogDetails, message: string): void;
  /** Logs a line at level `warn`; see `Logger.warn`. */
  warn?(details: LogDetails, message: string): void;
}

/**
 * Adapts a logger whose methods accept the details before the message. Without this function, pino and bunyan would
 * drop the details, because the client passes the message first.
 *
 * @example
 * const etcd = new Client({ endpoints: ['http://127.0.0.1:2379'], logger: objectFirst(pino()) });
 */
export function objectFirst(logger: ObjectFirstLogger): Logger {
  checkLogger(logger, 'logger');
  return {
    debug: (message, details) => logger.debug?.(details, message),
    info: (message, details) => logger.info?.(details, message),
    warn: (message, details) => logger.warn?.(details, message),
  };
}

const LEVELS = ['debug', 'info', 'warn'] as const;

/** Checks that the value is a logger: an object or a class with a method for at least one level. */
export function checkLogger(logger: Logger | ObjectFirstLogger, argument: string): void {
  const isObject = (typeof logger === 'object' && logger !== null) || typeof logger === 'function';
  const hasLevel = reading(
    logger,
    argument,
    () => isObject && LEVELS.some((level) => typeof logger[level] === 'function'),
  );
  if (!hasLevel) throw invalidInput(argument, show(logger), 'a logger with a method debug, info or warn');
}

/** Returns log details that say why a stream ended. `error` is undefined if the server ended the stream normally. */
export function causeOf(error: EtcdError | undefined): LogDetails {
  if (error === undefined) return { problem: 'the server ended the stream' };
  return { reason: error.reason, problem: error.problem, endpoint: error.endpoint };
}

/** Logs a line. Ignores errors that the logger throws. */
export function log(logger: Logger | undefined, level: keyof Logger, message: string, details: LogDetails): void {
  if (logger === undefined) return;
  try {
    const logging: unknown = logger[level]?.(message, details);
    if (logging instanceof Promise) logging.catch(() => {});
  } catch {
    // The logger's error must not end a call or the process.
  }
}

/**
 * Logs one warning when a wait for a server begins, such as `watches wait for a server`, however many attempts fail.
 * Logs one line when the wait ends, such as `watches go on`.
 */
export class WaitLog {
  readonly #logger: Logger | undefined;
  readonly #what: string;
  #waiting = false;

  /** `what` is a plural noun for the objects that wait, such as `watches`. Each message begins with this noun. */
  constructor(logger: Logger | undefined, what: string) {
    this.#logger = logger;
    this.#what = what;
  }

  /** Logs that the wait begins, unless it has already begun. */
  waits(details: LogDetails): void {
    if (this.#waiting) return;
    this.#waiting = true;
    log(this.#logger, 'warn', `${this.#what} wait for a server`, details);
  }

  /** Logs that the wait has ended. Does nothing if there was no wait. */
  goOn(details: LogDetails): void {
    if (!this.#waiting) return;
    this.#waiting = false;
    log(this.#logger, 'info', `${this.#what} go on`, details);
  }

  /** Ends the wait without a log line. */
  reset(): void {
    this.#waiting = false;
  }
}
