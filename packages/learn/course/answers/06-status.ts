import type { Fields, Message } from '../04-protobuf.js';
import { Connection } from '../05-call.js';
import { CallError, call } from '../06-status.js';

/** Exercise 1: whether a write that failed with this error may have been applied. */
export function isOutcomeUnknown({ status }: CallError): boolean {
  // INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED and UNIMPLEMENTED: the server has refused the call.
  return ![3, 5, 7, 12].includes(status);
}

/** Exercise 2: like `call`, but throws a `CallError` with status 4 after `ms` milliseconds. */
export async function callWithin(connection: Connection, path: string, request: Fields, ms: number): Promise<Message> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = Object.assign(new CallError(`no response within ${ms} ms`), { status: 4 });
    timer = setTimeout(() => reject(error), ms);
  });
  return Promise.race([call(connection, path, request), late]).finally(() => clearTimeout(timer));
}

/** Exercise 3: makes a read again on a new connection if the call was cut off, at most `attempts` times. */
export async function read(address: string, path: string, request: Fields, attempts: number): Promise<Message> {
  for (let attempt = 1; ; attempt += 1) {
    const connection = new Connection(address);
    try {
      return await call(connection, path, request);
    } catch (error) {
      if (attempt === attempts || !(error instanceof CallError) || error.status !== 14) throw error;
    } finally {
      connection.close();
    }
  }
}
