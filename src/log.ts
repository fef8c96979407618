/** What is of use to whoever looks for a cause. No key, value, token or password is in it. */
export type LogDetails = Readonly<Record<string, string | number | bigint | readonly string[] | undefined>>;

/** Whatever takes lines: `console` does. What it throws is thrown away. */
export interface Logger {
  /** What is of use to whoever looks for something already. */
  debug?(message: string, details: LogDetails): void;
  /** What changed, and is in order. */
  info?(message: string, details: LogDetails): void;
  /** What failed, or was lost. */
  warn?(message: string, details: LogDetails): void;
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
