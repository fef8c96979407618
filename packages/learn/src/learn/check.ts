import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttp2Server, type ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, connect as connectTo, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { inspect, isDeepStrictEqual } from 'node:util';
import { Client } from '../../../../src/index.js';
import { inspectLock } from '../../../../src/locks.js';
import { Connection } from '../../course/05-call.js';

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
const TIME_LIMIT_MS = 20_000;

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

export const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** Returns a value in one line, and bytes in hexadecimal. */
function shown(value: unknown): string {
  return value instanceof Uint8Array ? `the bytes ${hexOf(value)}` : inspect(value, { breakLength: Infinity });
}

/** Checks what a function returns. `what` names the function and its input, because an error of the reader does not. */
export function assertResult(what: string, result: () => unknown, expected: unknown): void {
  let got: unknown;
  try {
    got = result();
  } catch (error) {
    if (error instanceof Error) error.message = `${what}: the function threw ${error}, expected ${shown(expected)}`;
    throw error;
  }
  const isEqual =
    got instanceof Uint8Array && expected instanceof Uint8Array
      ? hexOf(got) === hexOf(expected)
      : isDeepStrictEqual(got, expected);
  assert.ok(isEqual, `${what}: got ${shown(got)}, expected ${shown(expected)}`);
}

/** Checks that a promise rejects with an error that has these properties. The message shows what happened instead. */
export async function assertRejects(what: string, promise: Promise<unknown>, properties: object = {}): Promise<void> {
  const wanted = `expected an error${Object.keys(properties).length === 0 ? '' : ` with ${shown(properties)}`}`;
  const error: unknown = await promise.then(
    (value) => assert.fail(`${what}: resolved with ${shown(value)}, ${wanted}`),
    (thrown) => thrown,
  );
  const found = Object.keys(properties).map((name) => [name, (error as Record<string, unknown> | undefined)?.[name]]);
  const got = Object.fromEntries(found) as object;
  if (isDeepStrictEqual(got, properties)) return;
  const message = `${what}: got the error "${error}" with ${shown(got)}, ${wanted}`;
  if (!(error instanceof Error)) assert.fail(message);
  error.message = message; // The error keeps its stack, which contains the line of the reader's program.
  throw error;
}

/** A server of which a check observes the connections. */
export interface ObservedServer extends AsyncDisposable {
  readonly address: string;
  /** How many connections the server has accepted. */
  accepted(): number;
  /** Waits up to a second until all connections are closed. Resolves with how many are still open then. */
  openInTheEnd(): Promise<number>;
}

/** Starts a server that calls `onConnection` with each connection. By default, the server sends nothing. */
export async function observedServer(
  onConnection: (socket: Socket) => void = (socket) => socket.resume(),
): Promise<ObservedServer> {
  const open = new Set<Socket>();
  let accepted = 0;
  const server = createServer((socket) => {
    accepted += 1;
    open.add(socket);
    socket.on('error', () => {}).once('close', () => open.delete(socket));
    onConnection(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    accepted: () => accepted,
    openInTheEnd: async () => {
      for (const endMs = performance.now() + 1_000; open.size > 0 && performance.now() < endMs; ) await pause(10);
      return open.size;
    },
    [Symbol.asyncDispose]: async () => {
      server.close();
      for (const socket of open) socket.destroy();
    },
  };
}

/** Starts a proxy in front of a server. */
export function observedProxy(serverAddress: string): Promise<ObservedServer> {
  const { hostname, port } = new URL(`http://${serverAddress}`);
  return observedServer((client) => {
    const upstream = connectTo(Number(port), hostname);
    upstream.on('error', () => client.destroy());
    client.once('close', () => upstream.destroy());
    client.pipe(upstream).pipe(client);
  });
}

/** Starts a gRPC server that answers each call with `answer`. */
export function grpcServer(answer: (stream: ServerHttp2Stream) => void): Promise<ObservedServer> {
  const http2 = createHttp2Server().on('stream', answer);
  return observedServer((socket) => http2.emit('connection', socket));
}

/** Checks that no client waits for a lock. */
export async function assertNoWaiters(etcd: Client, name: string): Promise<void> {
  const keys = (await inspectLock(etcd, name)).waiters.map(({ kv }) => kv.key);
  assertResult('the keys in the queue after the key of the holder', () => keys, []);
}

/** Checks that no client holds a lock. */
export async function assertNoHolder(etcd: Client, name: string): Promise<void> {
  const { holder } = await inspectLock(etcd, name);
  assertResult('the key of the holder', () => holder?.kv.key, undefined);
}

let names = 0;
/** Returns a name that no earlier check has used. */
export function newName(): string {
  names += 1;
  return `learn-${process.pid}-${names}`;
}
