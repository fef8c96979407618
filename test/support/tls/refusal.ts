import type { Client, EtcdError } from '../../../src/index.js';
import { errorOf } from '../errors.js';

/** Why nobody can be connected to: what a stream says at once, where a call is made again until its time is up. */
export function refusalOf(client: Client): Promise<EtcdError> {
  const stream = client.raw.lease.leaseKeepAlive();
  stream.send({ id: 1n });
  return errorOf(stream.next());
}
