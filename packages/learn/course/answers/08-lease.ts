import type { Connection } from '../05-call.js';
import { call } from '../06-status.js';

/** Exercise 1: asks how many seconds a lease still lasts. The result is -1 if the lease does not exist. */
export async function secondsLeft(connection: Connection, id: bigint): Promise<bigint> {
  return (await call(connection, '/etcdserverpb.Lease/LeaseTimeToLive', { 1: id })).int(3);
}

/** Exercise 2: puts a key that etcd deletes when the lease ends. */
export async function putWithLease(connection: Connection, key: string, value: string, id: bigint): Promise<void> {
  await call(connection, '/etcdserverpb.KV/Put', { 1: key, 2: value, 3: id });
}

/** Exercise 3: lists the leases of the server. */
export async function leases(connection: Connection): Promise<bigint[]> {
  return (await call(connection, '/etcdserverpb.Lease/LeaseLeases', {})).messages(2).map((lease) => lease.int(1));
}
