import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { type Round, rounds } from './rounds.js';

/** A bound for hangs: a round takes seconds. */
const ROUND_TIMEOUT_MS = 240_000;

/** What one round of a row comes to, for the table of all rows. */
export interface Figures {
  /** Faults that were made. */
  readonly faults: number;
  /** Events that watches delivered and that were compared with the truth. */
  readonly events?: number | undefined;
  /** Puts that were judged. */
  readonly puts?: number | undefined;
  /** From each fault, or from its end where it leaves no way out, until the client was well again. */
  readonly recoveryMs?: readonly number[] | undefined;
  /** What else is worth a line, with its unit in its name. */
  readonly further?: Readonly<Record<string, number>> | undefined;
}

declare module 'vitest' {
  interface TaskMeta {
    row?: string;
    figures?: Figures;
  }
}

/** What the rounds of a row share. */
export interface Fixture extends AsyncDisposable {
  /** Ends every fault that is left. */
  heal(): Promise<void>;
}

/**
 * One row of the catalogue of faults, as so many seeded rounds on the same servers. `open` gives undefined where they
 * cannot be had.
 */
export function faultRow<Opened extends Fixture>(
  what: string,
  open: () => Promise<Opened | undefined>,
  round: (fixture: Opened, round: Round, context: TestContext) => Promise<Figures>,
): void {
  describe(what, () => {
    let fixture: Opened | undefined;
    beforeAll(async () => {
      fixture = await open();
    });
    afterAll(() => fixture?.[Symbol.asyncDispose]());
    test.for(rounds())('seed $seed', { timeout: ROUND_TIMEOUT_MS }, async (seeded, context) => {
      const { meta } = context.task;
      meta.row = what;
      if (fixture === undefined) return context.skip('the servers are not ours, or something they need is missing');
      try {
        meta.figures = await round(fixture, seeded, context);
        expect(meta.figures.faults, 'faults made').toBeGreaterThan(0);
      } catch (error) {
        // What cannot be healed comes of it, and would hide it.
        await fixture.heal().catch(() => {});
        throw error;
      }
      await fixture.heal();
    });
  });
}
