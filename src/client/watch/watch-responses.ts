import { EtcdError, errorFromText } from '../../base/index.js';
import type { WatchResponse } from '../../gen/etcdserverpb/rpc.js';
import * as watchMethods from '../../gen/methods/watch.js';

/** Whether a server of this version answers a progress request only after it has sent all earlier events. */
export function ordersProgress(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map((part) => Number.parseInt(part, 10));
  if (major !== 3 || minor > 5) return major >= 3;
  return (minor === 5 && patch >= 8) || (minor === 4 && patch >= 25);
}

/**
 * Returns the piece of a response as a fragment. etcd writes the fields in the order of their numbers, so the events
 * are the last field, and the first piece contains all other fields.
 *
 * @throws EtcdError if the server writes the fields in another order.
 */
export function fragmentOf(piece: WatchResponse, first: WatchResponse, isLast: boolean): WatchResponse {
  if (first.header === undefined || (piece !== first && piece.header !== undefined))
    throw new EtcdError('malformed etcdserverpb.WatchResponse: the header is not the first field', {
      code: 'Internal',
      reason: 'MalformedMessage',
      outcome: 'unknown',
      method: watchMethods.watch.path,
    });
  return { ...first, events: piece.events, fragment: first.fragment || !isLast };
}

/** Returns the error for a response that refuses or ends a watch. */
export function refusal({ compactRevision, cancelReason }: WatchResponse): EtcdError {
  const method = watchMethods.watch.path;
  if (compactRevision > 0n) {
    return new EtcdError(
      `the watch needs a revision that was compacted; the oldest available revision is ${compactRevision}`,
      {
        code: 'OutOfRange',
        reason: 'Compacted',
        outcome: 'rejected',
        method,
        compactRevision,
      },
    );
  }
  return errorFromText(cancelReason === '' ? 'the server ended the watch' : cancelReason, { method });
}
