import { EtcdError } from '../../base/index.js';

/** Calls `act`, and notes its outcome and its result. Resolves or rejects as `act` does. */
export async function recorded<Result>(
  act: () => Promise<Result>,
  note: (outcome: 'ok' | 'fail' | 'unknown', result?: Result) => void,
): Promise<Result> {
  try {
    const result = await act();
    note('ok', result);
    return result;
  } catch (error) {
    note(outcomeOf(error));
    throw error;
  }
}

function outcomeOf(thrown: unknown): 'fail' | 'unknown' {
  return thrown instanceof EtcdError && (thrown.outcome === 'rejected' || thrown.outcome === 'not-sent')
    ? 'fail'
    : 'unknown';
}
