import type { Connection } from './05-call.js';
import { call, startCall } from './06-status.js';

/** Requests a lease of `ttl` seconds, and renews it. Returns its `id`, `isAlive()` and `revoke()`. */
export async function grant(connection: Connection, ttl: number) {
  let sentAt = performance.now();
  const granted = await call(connection, '/etcdserverpb.Lease/LeaseGrant', { 1: ttl });
  const id = granted.int(2);
  let deadline = sentAt + Number(granted.int(3)) * 1000;
  const { messages, send } = startCall(connection, '/etcdserverpb.Lease/LeaseKeepAlive');
  const renew = (): void => {
    sentAt = performance.now();
    send({ 1: id });
  };
  const keepAlive = async (): Promise<void> => {
    renew();
    for await (const response of messages) {
      if (deadline === 0) return; // The client has revoked the lease.
      deadline = sentAt + Number(response.int(3)) * 1000;
      setTimeout(renew, (ttl * 1000) / 3).unref();
    }
  };
  keepAlive().catch(() => {}); // If the connection is lost, the deadline passes.
  return {
    id,
    /** Returns false once the TTL has passed since the last renewal was sent, or when a renewal finds no lease. */
    isAlive: () => performance.now() < deadline,
    /** Ends the lease. The server deletes the keys that are attached to the lease. */
    revoke: () => {
      deadline = 0;
      return call(connection, '/etcdserverpb.Lease/LeaseRevoke', { 1: id });
    },
  };
}
