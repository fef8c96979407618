import { connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** Between clients and a server on this machine. */
export interface Relay {
  /** `https:` */
  readonly endpoint: string;
  /** Connections of clients, those that are over too. */
  readonly clients: readonly Socket[];
}

/**
 * Passes on what clients say, and what `pass` makes of what the server says; undefined: nothing. Closed when the test
 * ends.
 *
 * @param pass Called for each piece, with how many bytes there were before it on this connection.
 */
export async function relay(
  port: number,
  pass: (bytes: Buffer, before: number) => Buffer | undefined,
  host = '127.0.0.1',
): Promise<Relay> {
  const clients: Socket[] = [];
  const server = createServer((client) => {
    clients.push(client);
    const upstream = connect(port, '127.0.0.1');
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end);
    client.on('data', (bytes) => upstream.write(bytes));
    let before = 0;
    upstream.on('data', (bytes) => {
      const passed = pass(bytes, before);
      before += bytes.length;
      if (passed !== undefined) client.write(passed);
    });
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, host, resolve));
  onTestFinished(() => {
    for (const client of clients) client.destroy();
    server.close();
  });
  const name = host.includes(':') ? `[${host}]` : host;
  return { endpoint: `https://${name}:${(server.address() as { port: number }).port}`, clients };
}
