const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;
type Signal = keyof typeof EXIT_CODES;

/** Somebody wants the run to end. */
export class Interrupted extends Error {
  readonly exitCode: number;

  constructor(signal: Signal) {
    super(signal);
    this.exitCode = EXIT_CODES[signal];
  }
}

/** Rejects with an `Interrupted` on the first signal that asks the process to end. */
export function interruption(): Promise<never> {
  return new Promise((_, reject) => {
    for (const signal of Object.keys(EXIT_CODES) as Signal[]) {
      process.once(signal, () => reject(new Interrupted(signal)));
    }
  });
}
