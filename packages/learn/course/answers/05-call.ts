import { DATA, END_STREAM } from '../02-frames.js';
import { encode, type Fields, Message } from '../04-protobuf.js';
import type { Connection } from '../05-call.js';

/** Makes a call and waits for its response. Ignores how the call ended, which is the subject of the next chapter. */
function request(connection: Connection, path: string, fields: Fields): Promise<Message> {
  return new Promise((resolve, reject) => {
    let received = Buffer.alloc(0);
    const send = connection.start(path, (frame) => {
      if (frame instanceof Error) return reject(frame);
      if (frame.type === DATA) received = Buffer.concat([received, frame.payload]);
      else if ((frame.flags & END_STREAM) !== 0) resolve(new Message(received.subarray(5)));
    });
    send(encode(fields), true);
  });
}

/** Exercise 1: puts a key. */
export async function put(connection: Connection, key: string, value: string): Promise<void> {
  await request(connection, '/etcdserverpb.KV/Put', { 1: key, 2: value });
}

/** Exercise 2: gets the values of several keys in the time of one round trip. */
export function getAll(connection: Connection, keys: readonly string[]): Promise<(string | undefined)[]> {
  return Promise.all(
    keys.map(async (key) => {
      const [kv] = (await request(connection, '/etcdserverpb.KV/Range', { 1: key })).messages(2);
      return kv && `${kv.bytes(5)}`;
    }),
  );
}

/** Exercise 3: asks the server for its version. */
export async function version(connection: Connection): Promise<string> {
  return `${(await request(connection, '/etcdserverpb.Maintenance/Status', {})).bytes(2)}`;
}
