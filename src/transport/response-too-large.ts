import { EtcdError } from '../errors.js';

/** A response longer than this side takes. */
export function responseTooLarge(
  bytes: number | string,
  allowed: number,
  { method, endpoint }: { readonly method: string; readonly endpoint: string },
): EtcdError {
  return new EtcdError(
    `a response of ${typeof bytes === 'number' ? `${bytes} bytes` : bytes}; at most ${allowed} are taken (maxReceiveBytes)`,
    {
      code: 'ResourceExhausted',
      reason: 'ResponseTooLarge',
      outcome: 'unknown',
      method,
      endpoint,
    },
  );
}
