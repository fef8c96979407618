import { once } from 'node:events';
import { type AddressInfo, connect as connectTo, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { inspect, isDeepStrictEqual } from 'node:util';
import { Client } from '../../../../src/index.js';
import { inspectLock } from '../../../../src/locks.js';
import { encodeFrame, type Frame, HEADERS, readFrames, SETTINGS } from '../../course/02-frames.js';
import { Connection } from '../../course/05-call.js';

/** The server of a check. */
interface Server {
  readonly address: string;
  /** A client of the server that makes the changes that a check needs. */
  readonly etcd: Client;
  /** Opens a `Connection` to an address, by default to the server, and closes it after the check. */
  connect(to?: string): Connection;
}

export interface Check {
  readonly what: string;
  /** The number of the exercise. Undefined if the check is about the program of the chapter. */
  readonly exercise: number | undefined;
  /** The export that the check is about. */
  readonly needs: string;
  /** `ConnectionClass` is the reader's class `Connection`. The default is the class of the course. */
  run(exports: object, address: string, ConnectionClass?: typeof Connection): Promise<void>;
}

type AddCheck<X> = (
  needs: keyof X & string,
  exercise: number | undefined,
  what: string,
  run: (exports: X, server: Server) => unknown,
) => void;

/** Stands in for the number of an exercise if a check is about the chapter's program, which belongs to no exercise. */
export const PROGRAM = undefined;
/** Time limit of a step of a check in milliseconds. A step that takes longer fails. */
const STEP_LIMIT_MS = 10_000;
const POLL_MS = 10;
const PREFACE_BYTES = 24;
/** Maximum number of characters of a value in a message. */
const SHOWN_MAX = 300;

let announce: (step: string) => void = () => {};
/** Passes each step to `to` before it begins. After a step that blocks the process, the last one tells which it was. */
export function announceSteps(to: (step: string) => void): void {
  announce = to;
}

/** Returns the checks of a chapter. `X` is what its program and its answers export. */
export function checks<X>(add: (check: AddCheck<X>) => void): Check[] {
  const all: Check[] = [];
  add((needs, exercise, what, run) => {
    all.push({
      what,
      exercise,
      needs,
      run: (exports, address, ConnectionClass = Connection) =>
        runAt(address, ConnectionClass, (server) => run(exports as X, server)),
    });
  });
  return all;
}

/** Runs a check with a client and connections that are closed afterwards. */
async function runAt(
  address: string,
  ConnectionClass: typeof Connection,
  run: (server: Server) => unknown,
): Promise<void> {
  await using etcd = new Client({ endpoints: [`http://${address}`] });
  const connections: Connection[] = [];
  const connect = (to = address): Connection => {
    const connection = new ConnectionClass(to);
    connections.push(connection);
    return connection;
  };
  try {
    await run({ address, etcd, connect });
  } finally {
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

/** Returns a value in one line of limited length, and bytes in hexadecimal. */
function shown(value: unknown): string {
  if (value instanceof Uint8Array) return `the bytes ${hexOf(value)}`;
  const text = inspect(value, { breakLength: Infinity });
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)} …` : text;
}

/** Says what the program of the reader did, and what the check expected. */
export class CheckError extends Error {}

/** Fails the check unless `isTrue`. `message` says what the program did, and what the check expected. */
export function assertThat(isTrue: boolean, message: string): asserts isTrue {
  if (!isTrue) throw new CheckError(message);
}

/**
 * Runs a function of the reader, and resolves with its result. `what` names the function and its input, because an
 * error of the reader does not. Rejects if the function throws, or has not resolved after some seconds.
 */
export async function resultOf<T>(what: string, run: () => T | PromiseLike<T>, expected?: string): Promise<T> {
  announce(what);
  const wanted = expected === undefined ? '' : `, expected ${expected}`;
  const stop = new AbortController();
  const late = pause(STEP_LIMIT_MS, undefined, { signal: stop.signal }).then(
    () => assertThat(false, `${what}: no result after ${STEP_LIMIT_MS / 1_000} s${wanted}`),
    () => {},
  );
  try {
    return (await Promise.race([(async () => run())(), late])) as T;
  } catch (error) {
    if (error instanceof CheckError) throw error;
    const { status } = Object(error) as { readonly status?: unknown };
    const statusText = status === undefined ? '' : ` (status ${status})`;
    throw explained(error, `${what}: the function threw "${error}"${statusText}${wanted}`);
  } finally {
    stop.abort();
  }
}

/** Returns the error with another message. The error keeps its stack, which contains the line of the reader's program. */
export function explained(error: unknown, message: string): Error {
  return error instanceof Error ? Object.assign(error, { message }) : new CheckError(message);
}

/** Checks what a function returns, or what its promise resolves with. */
export async function assertResult(what: string, run: () => unknown, expected: unknown): Promise<void> {
  const got = await resultOf(what, run, shown(expected));
  if (got instanceof Uint8Array && expected instanceof Uint8Array) {
    if (hexOf(got) === hexOf(expected)) return;
    const index = expected.findIndex((byte, at) => got[at] !== byte);
    const place = index < 0 ? 'there are more bytes' : `first difference: byte ${index}`;
    assertThat(false, `${what}: got ${shown(got)}, expected ${shown(expected)} (${place})`);
  }
  assertThat(isDeepStrictEqual(got, expected), `${what}: got ${shown(got)}, expected ${shown(expected)}`);
}

/** Checks that a promise rejects with an error that has these properties. The message shows what happened instead. */
export async function assertRejects(what: string, run: () => unknown, properties: object = {}): Promise<void> {
  const wanted = `an error${Object.keys(properties).length === 0 ? '' : ` with ${shown(properties)}`}`;
  const outcome = async (): Promise<{ readonly value: unknown } | { readonly error: unknown }> => {
    try {
      return { value: await run() };
    } catch (error) {
      return { error };
    }
  };
  const result = await resultOf(what, outcome, wanted);
  if ('value' in result) assertThat(false, `${what}: resolved with ${shown(result.value)}, expected ${wanted}`);
  const { error } = result;
  const found = Object.keys(properties).map((name) => [name, (error as Record<string, unknown> | undefined)?.[name]]);
  const got = Object.fromEntries(found) as object;
  if (isDeepStrictEqual(got, properties)) return;
  throw explained(error, `${what}: got the error "${error}" with ${shown(got)}, expected ${wanted}`);
}

/** Waits until something is true that the program of the reader must cause. `what` is a sentence about it. */
async function until(what: string, isTrue: () => Promise<boolean>): Promise<void> {
  announce(what);
  for (const endMs = performance.now() + STEP_LIMIT_MS; !(await isTrue()); await pause(POLL_MS))
    assertThat(performance.now() < endMs, `this has not happened after ${STEP_LIMIT_MS / 1_000} s: ${what}`);
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

/** Starts a proxy in front of a server. It closes the first connections, `lost` of them, at once. */
export function observedProxy(serverAddress: string, lost = 0): Promise<ObservedServer> {
  const { hostname, port } = new URL(`http://${serverAddress}`);
  let accepted = 0;
  return observedServer((client) => {
    accepted += 1;
    if (accepted <= lost) return void client.destroy();
    const upstream = connectTo(Number(port), hostname);
    upstream.on('error', () => client.destroy());
    client.once('close', () => upstream.destroy());
    client.pipe(upstream).pipe(client);
  });
}

/**
 * Starts a gRPC server that answers each call with these frames. It uses the same few forms of header fields as etcd,
 * because the programs of the course need to decode no others.
 */
export function grpcServer(answer: (stream: number) => readonly Buffer[]): Promise<ObservedServer> {
  return frameServer([encodeFrame(SETTINGS, 0, 0)], ({ type, stream }, send) => {
    if (type === HEADERS) send(Buffer.concat(answer(stream)));
  });
}

/** Starts a server that sends these frames at the start of each connection, and calls `onFrame` with each received one. */
export function frameServer(
  first: readonly Buffer[],
  onFrame: (frame: Frame, send: (bytes: Buffer) => void) => void,
): Promise<ObservedServer> {
  return observedServer((socket) => {
    const serve = async (): Promise<void> => {
      socket.write(Buffer.concat(first));
      for await (const frame of readFrames(withoutPreface(socket))) onFrame(frame, (bytes) => socket.write(bytes));
    };
    serve().catch(() => socket.destroy());
  });
}

async function* withoutPreface(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let left = PREFACE_BYTES;
  for await (const chunk of chunks) {
    yield chunk.subarray(left);
    left = Math.max(0, left - chunk.length);
  }
}

/** Waits until a client is in the queue of a lock behind the holder. */
export function untilWaiting(etcd: Client, name: string): Promise<void> {
  const isWaiting = async (): Promise<boolean> => (await inspectLock(etcd, name)).waiters.length > 0;
  return until('a second client asks for the lock, and puts a key into the queue', isWaiting);
}

/** Checks that no client waits for a lock. */
export async function assertNoWaiters(etcd: Client, name: string): Promise<void> {
  const keys = async () => (await inspectLock(etcd, name)).waiters.map(({ kv }) => kv.key);
  await assertResult('the keys in the queue after the key of the holder', keys, []);
}

/** Checks that no client holds a lock. */
export async function assertNoHolder(etcd: Client, name: string): Promise<void> {
  const key = async () => (await inspectLock(etcd, name)).holder?.kv.key;
  await assertResult('the key of the holder after the release', key, undefined);
}

let names = 0;
/** Returns a name that no earlier check has used. */
export function newName(): string {
  names += 1;
  return `learn-${process.pid}-${names}`;
}
