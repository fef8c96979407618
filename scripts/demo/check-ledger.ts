import type { LedgerEntry } from './story.js';

/** What is wrong with a ledger, given the order in which the workers queued. Nothing: an empty list. */
export function checkLedger(
  entries: readonly (LedgerEntry & { readonly revision: bigint })[],
  queue: readonly string[],
): string[] {
  const problems: string[] = [];
  const written = [...entries].sort((x, y) => (x.revision < y.revision ? -1 : 1));
  const order = written.map(({ worker }) => worker).filter((worker, index, all) => worker !== all[index - 1]);
  if (order.join() !== queue.join())
    problems.push(`the ledger was written in the order ${order.join()}, the queue was ${queue.join()}`);
  written.forEach((entry, index) => {
    const before = written[index - 1];
    if (before !== undefined && BigInt(entry.token) < BigInt(before.token)) {
      problems.push(
        `stale write: ${entry.worker} with token ${entry.token} after ${before.worker} with ${before.token}`,
      );
    }
    const expected = before?.worker === entry.worker ? before.entry + 1 : 1;
    if (entry.entry !== expected) problems.push(`${entry.worker} wrote entry ${entry.entry} where ${expected} was due`);
  });
  return problems;
}
