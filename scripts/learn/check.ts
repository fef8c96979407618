import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Connection } from '../../docs/learn/05-call.js';
import { Client } from '../../src/index.js';

/** The server of a check. */
interface Server {
  readonly address: string;
  /** A client of the server that makes the changes that a check needs. */
  readonly etcd: Client;
  /** Opens a `Connection` of the course to an address, by default to the server, and closes it after the check. */
  connect(to?: string): Connection;
}

export interface Check {
  readonly what: string;
  /** The number of the exercise. Undefined if the check is about the program of the chapter. */
  readonly exercise: number | undefined;
  /** The export that the check is about. */
  readonly needs: string;
  run(exports: object, address: string): Promise<void>;
}

type AddCheck<X> = (
  needs: keyof X & string,
  exercise: number | undefined,
  what: string,
  run: (exports: X, server: Server) => unknown,
) => void;

/** Stands in for the number of an exercise if a check is about the chapter's program, which belongs to no exercise. */
export const PROGRAM = undefined;
/** Time limit of a check in milliseconds. A check that takes longer fails. */
const TIME_LIMIT_MS = 10_000;

/** Returns the checks of a chapter. `X` is what its program and its answers export. */
export function checks<X>(add: (check: AddCheck<X>) => void): Check[] {
  const all: Check[] = [];
  add((needs, exercise, what, run) => {
    all.push({
      what,
      exercise,
      needs,
      run: (exports, address) => runAt(address, (server) => run(exports as X, server)),
    });
  });
  return all;
}

/** Runs a check with a client and connections that are closed afterwards, and with a time limit. */
async function runAt(address: string, run: (server: Server) => unknown): Promise<void> {
  await using etcd = new Client({ endpoints: [`http://${address}`] });
  const connections: Connection[] = [];
  const connect = (to = address): Connection => {
    const connection = new Connection(to);
    connections.push(connection);
    return connection;
  };
  const stop = new AbortController();
  try {
    const late = pause(TIME_LIMIT_MS, undefined, { signal: stop.signal }).then(() => {
      throw new Error(`the check did not end within ${TIME_LIMIT_MS / 1_000} s, because it waits for the program`);
    });
    late.catch(() => {});
    await Promise.race([run({ address, etcd, connect }), late]);
  } finally {
    stop.abort();
    for (const connection of connections) connection.close();
  }
}

export async function* chunksOf(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

export async function collected<T>(items: AsyncIterable<T>, count = Number.POSITIVE_INFINITY): Promise<T[]> {
  const all: T[] = [];
  if (count > 0) for await (const item of items) if (all.push(item) === count) break;
  return all;
}

export const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

/** Starts a server that accepts connections, and sends nothing. */
export async function silentServer(): Promise<{ readonly address: string } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async (): Promise<void> => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, [Symbol.asyncDispose]: close };
}

let names = 0;
/** Returns a name that no earlier check has used. */
export function newName(): string {
  names += 1;
  return `learn-${process.pid}-${names}`;
}
