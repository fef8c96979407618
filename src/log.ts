/** What is of use to whoever looks for a cause. No key, value, token or password is in it. */
export type LogDetails = Readonly<Record<string, string | number | bigint | readonly string[] | undefined>>;

/** Whatever takes lines: `console` does. What it throws is thrown away. */
export interface Logger {
  debug?(message: string, details: LogDetails): void;
  info?(message: string, details: LogDetails): void;
  warn?(message: string, details: LogDetails): void;
}

/** Tells the logger, if there is one. */
export function log(logger: Logger | undefined, level: keyof Logger, message: string, details: LogDetails): void {
  if (logger === undefined) return;
  try {
    logger[level]?.(message, details);
  } catch {
    // Nothing here may end for want of a line in a log.
  }
}
