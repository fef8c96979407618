import { show } from './arguments.js';
import { type EtcdError, invalidInput, type Reason } from './etcd-error.js';
import { INSPECT, type InspectArguments } from './printed.js';

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
  /** Logs changes that are not a problem, such as new endpoints. */
  info?(message: string, details: LogDetails): void;
  /** Logs failures and losses, such as an unavailable endpoint or a lost lease. */
  warn?(message: string, details: LogDetails): void;
}

/** A logger whose methods accept the details before the message, such as pino and bunyan. */
export interface ObjectFirstLogger {
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
    info: (message, details) => logger.info?.(details, message),
    warn: (message, details) => logger.warn?.(details, message),
  };
}

const LEVELS = ['info', 'warn'] as const;

/** Checks that the value is a logger: an object or a class with a method for at least one level. */
export function checkLogger(logger: Logger | ObjectFirstLogger, argument: string): void {
  const isObject = (typeof logger === 'object' && logger !== null) || typeof logger === 'function';
  if (!isObject || !LEVELS.some((level) => typeof logger[level] === 'function'))
    throw invalidInput(argument, show(logger), 'a logger with a method info or warn');
}

/** Why watches or keepalives wait for a server. Without `reason`, the server has ended their stream normally. */
export interface WaitCause {
  readonly reason?: Reason | undefined;
  readonly problem: string;
  readonly endpoint?: string | undefined;
}

/**
 * Something that has happened to a client in the background. The `type` is the message of the log line for the event,
 * and the other fields are its details. The client logs an event with a `problem` as a warning, and any other event as
 * information. Events contain no key, value, token or password.
 *
 * @example
 * const show = (event: ClientEvent): void => {
 *   if (event.type === 'lease lost') console.error(event.lease, event.reason);
 * };
 * const off = etcd.onEvent(show);
 * off();
 */
export type ClientEvent =
  /** A call or a stream has failed in a way that concerns the whole endpoint. The client prefers other endpoints. */
  | {
      readonly type: 'endpoint unavailable';
      readonly endpoint: string;
      readonly reason: Reason;
      readonly problem: string;
    }
  /** A call has succeeded at an endpoint that was unavailable. */
  | { readonly type: 'endpoint available again'; readonly endpoint: string }
  /** `setEndpoints`, `sync` or `followDns` has changed the endpoints. */
  | { readonly type: 'endpoints changed'; readonly endpoints: readonly string[] }
  /**
   * Calls wait, because streams without a time limit, such as those of `raw.watch`, take all places that the server
   * allows on a connection.
   */
  | { readonly type: 'streams used up'; readonly endpoint: string; readonly problem: string }
  /** The watches of the client and its namespaces have no stream. The client opens one as soon as it can. */
  | ({ readonly type: 'watches wait for a server'; readonly watches: number } & WaitCause)
  | { readonly type: 'watches go on'; readonly watches: number }
  /** The client cannot renew its leases. The client tries again until the leases expire. */
  | ({ readonly type: 'keepalives wait for a server'; readonly leases: number } & WaitCause)
  | { readonly type: 'keepalives go on'; readonly leases: number }
  /** A lease that the client kept alive has expired, or may have expired, or was revoked. `lease` is hexadecimal. */
  | { readonly type: 'lease lost'; readonly lease: string; readonly reason: Reason; readonly problem: string }
  /** The store has gone back to an older revision, because the cluster was restored from a backup. */
  | { readonly type: 'cluster restored'; readonly problem: string; readonly endpoint?: string | undefined }
  /** See `PersistedRangeNotice`. */
  | { readonly type: `persisted range: ${'copy-ignored' | 'save-failed' | 'store-changed'}`; readonly problem: string }
  /** `followDns` could not look up the addresses of the endpoints. */
  | { readonly type: 'endpoints could not be resolved'; readonly problem: string }
  | { readonly type: 'endpoints resolved again'; readonly endpoints: readonly string[] };

export type EventListener = (event: ClientEvent) => void;

/** The events of one client, for its logger, for listeners of the program, and for the streams of the client. */
export class ClientEvents {
  readonly #listeners = new Set<EventListener>();
  /** The functions that remove the listeners of the program. */
  readonly #foreign = new Set<() => void>();

  /** Calls `listener` for each event. Returns a function that removes the listener. */
  add(listener: EventListener): () => void {
    const own: EventListener = (event) => listener(event);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** Does the same as `add`, but ignores errors of the listener, because they must not end a call or the process. */
  addForeign(listener: (event: ClientEvent) => unknown): () => void {
    const off = this.add((event) => {
      try {
        const result = listener(event);
        if (result instanceof Promise) result.catch(() => {});
      } catch {
        // This method ignores errors of the listener.
      }
    });
    this.#foreign.add(off);
    return () => {
      this.#foreign.delete(off);
      off();
    };
  }

  /** Whether the program gets the events, through its logger or a listener. */
  get isObserved(): boolean {
    return this.#foreign.size > 0;
  }

  /** Passes each event to the logger, if there is one. */
  addLogger(logger: Logger | undefined): void {
    if (logger === undefined) return;
    this.addForeign(({ type, ...details }) =>
      logger['problem' in details ? 'warn' : 'info']?.(type, onOneLine(details)),
    );
  }

  report(event: ClientEvent): void {
    for (const listener of [...this.#listeners]) listener(event);
  }
}

/** Returns the details. `console` prints them on one line, however long they are. */
function onOneLine(details: LogDetails): LogDetails {
  const print = (...[, options, inspect]: InspectArguments): string =>
    inspect?.({ ...details }, { ...options, breakLength: Number.POSITIVE_INFINITY }) ?? JSON.stringify(details);
  return Object.defineProperty(details, INSPECT, { value: print });
}

/** Returns why a stream ended. `error` is undefined if the server ended the stream normally. */
export function causeOf(error: EtcdError | undefined): WaitCause {
  if (error === undefined) return { problem: 'the server ended the stream' };
  return { reason: error.reason, problem: error.problem, endpoint: error.endpoint };
}
