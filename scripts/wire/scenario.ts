import { setTimeout as sleep } from 'node:timers/promises';
import { fieldsOf } from '../../packages/cli/src/frames.js';
import type { WireFrame, WireMessage } from '../../packages/cli/src/inspect/frames.js';
import { tapped } from '../../packages/cli/src/inspect/tapped.js';
import { replaceEnvironment } from '../../src/base/environment.js';
import { methods } from '../../src/gen/methods.js';
import type { OpenByteStream } from '../../src/host/host.js';
import { openByteStream } from '../../src/host/node.js';
import { Client, compare, op } from '../../src/index.js';
import { type Held, Mutex, Session } from '../../src/locks.js';
import { http2Over } from '../../src/wire/http2/http2-transport.js';
import { startEtcd } from '../etcd.js';

// Two clients, Anne and Ben, contend for one lock. The lease IDs, the cluster ID, the member ID and the address are
// fixed, so the clients send and receive the same bytes in every run.

const ENDPOINT = 'http://127.0.0.1:2379';
/** The peer URL of the member. etcd derives the cluster ID and the member ID from it. */
const PEER = 'http://127.0.0.1:2380';
const LOCK = 'jobs';
/** TTL of the leases in seconds: longer than a run takes, so that no lease expires. */
const TTL = 600;
/** The random number in the names of the guards: "etcdwire" in base 36. */
const GUARDS = BigInt(Number.parseInt('etcdwire', 36));
/** The lease IDs of the two clients. */
const [ANNE, BEN] = [0xan, 0xbn];

/** The frames that docs/wire.md shows. Each key is the name that docs/wire.md gives to the frame. */
export type Scenes = ReadonlyMap<string, WireFrame>;

export interface Run {
  /** "major.minor.patch" of etcd. */
  readonly version: string;
  readonly scenes: Scenes;
}

/**
 * Runs the scenario on a new etcd member. Resolves with undefined if `startEtcd` returned a server that was already
 * running, because such a server has other IDs.
 */
export async function play(): Promise<Run | undefined> {
  const args = [`--initial-advertise-peer-urls=${PEER}`, `--initial-cluster=m0=${PEER}`];
  const server = await startEtcd({ args });
  try {
    const [endpoint = ''] = server.endpoints;
    const { version } = server;
    if (server.members.length === 0 || version === undefined) return undefined;
    const port = Number(new URL(endpoint).port);
    // The names of guards contain a random number, which must be the same in every run.
    const crypto = { getRandomValues: (numbers: BigUint64Array<ArrayBuffer>) => numbers.fill(GUARDS) };
    const restore = replaceEnvironment({ performance, Date, Math, crypto, setTimeout, clearTimeout, setImmediate });
    try {
      return { version, scenes: await scenesOf(port) };
    } finally {
      restore();
    }
  } finally {
    await server.close();
  }
}

async function scenesOf(port: number): Promise<Scenes> {
  await using anne = new Player(port);
  await using ben = new Player(port);

  await anne.etcd.lease.grant({ ttl: TTL, id: ANNE });
  const annesSession = await Session.open(anne.etcd, { lease: ANNE });
  const annes = await new Mutex(annesSession, LOCK).lock();

  // Anne, the holder, now watches her key. Wait for the watch response, so that her next call has the same stream ID in
  // every run.
  await anne.message('WatchResponse', 1);

  await ben.etcd.lease.grant({ ttl: TTL, id: BEN });
  const bensSession = await Session.open(ben.etcd, { lease: BEN });
  const waiting = new Mutex(bensSession, LOCK).lock();
  // Wait until the server has created Ben's watch. From then on, Ben waits for its event.
  await ben.message('WatchResponse', 1);

  await annes.release();
  const bens = await waiting;
  await write(bens);
  await anne.etcd.txn({ if: [compare.createRevision(annes.key, '==', annes.token)], then: [op.put('job', 'by Anne')] });
  await bens.release();
  await bensSession.close();
  await annesSession.close();
  await ben.etcd.close();

  return new Map([...annesScenes(anne), ...bensScenes(ben)]);
}

async function write(held: Held): Promise<void> {
  await held.txn({ then: [op.put('job', 'by Ben')] });
}

function annesScenes(anne: Player): [string, WireFrame][] {
  const grant = anne.call(methods.lease.leaseGrant);
  const keepAlive = anne.call(methods.lease.leaseKeepAlive);
  const txn = (nth: number): Call => anne.call(methods.kv.txn, nth);
  const [acquire, unlock, stale] = [txn(1), txn(2), txn(3)];
  return [
    ['preface', anne.frame('sent', 'PREFACE')],
    ['settings', anne.frame('sent', 'SETTINGS')],
    ['window', anne.frame('sent', 'WINDOW_UPDATE')],
    ['settings of etcd', anne.frame('received', 'SETTINGS')],
    ['settings taken', anne.frame('sent', 'SETTINGS', 2)],
    ['grant: headers', grant.sent('HEADERS')],
    ['grant', grant.sent('DATA')],
    ['granted: headers', grant.received('HEADERS')],
    ['granted', grant.received('DATA')],
    ['granted: trailers', grant.received('HEADERS', 2)],
    ['alive: headers', keepAlive.sent('HEADERS')],
    ['alive', keepAlive.sent('DATA')],
    ['still alive', keepAlive.received('DATA')],
    ['acquire', acquire.sent('DATA')],
    ['acquired', acquire.received('DATA')],
    ['unlock', unlock.sent('DATA')],
    ['unlocked', unlock.received('DATA')],
    ['stale write', stale.sent('DATA')],
    ['stale write refused', stale.received('DATA')],
  ];
}

function bensScenes(ben: Player): [string, WireFrame][] {
  const txn = (nth: number): Call => ben.call(methods.kv.txn, nth);
  const [enter, look, write] = [txn(1), txn(2), txn(3)];
  const watch = ben.call(methods.watch.watch);
  return [
    ['entered', enter.received('DATA')],
    ['watch', watch.sent('DATA')],
    ['watching', watch.received('DATA')],
    ['Anne has left', watch.withEvent('DELETE')],
    ['look', look.sent('DATA')],
    ['no key is ahead', look.received('DATA')],
    ['fenced write', write.sent('DATA')],
    ['fenced write done', write.received('DATA')],
    ['revoke', ben.call(methods.lease.leaseRevoke).sent('DATA')],
    ['goodbye', ben.frame('sent', 'GOAWAY')],
  ];
}

/** A client and all frames of its connection. */
class Player implements AsyncDisposable {
  readonly etcd: Client;
  readonly #frames: WireFrame[] = [];

  constructor(port: number) {
    const dial: OpenByteStream = (endpoint, tls, events) =>
      openByteStream({ ...endpoint, address: { host: '127.0.0.1', port } }, tls, events);
    const transport = http2Over(tapped(dial, (frame) => this.#frames.push(frame)));
    this.etcd = new Client({ endpoints: [ENDPOINT], timeoutMs: Number.POSITIVE_INFINITY, transport });
  }

  /** Returns the nth frame of this type, counted from 1. */
  frame(direction: WireFrame['direction'], type: string, nth = 1): WireFrame {
    return nthOf(
      nth,
      this.#frames.filter((frame) => frame.direction === direction && frame.type === type),
      `${type} ${direction}`,
    );
  }

  /** Returns the nth call of this method, counted from 1. */
  call({ path }: { readonly path: string }, nth = 1): Call {
    const opened = this.#frames.filter(
      ({ direction, detail }) =>
        direction === 'sent' &&
        detail.kind === 'headers' &&
        detail.headers.some(([name, value]) => name === ':path' && value === path),
    );
    const { streamId } = nthOf(nth, opened, path);
    return new Call(this.#frames.filter((frame) => frame.streamId === streamId));
  }

  /** Waits until the nth message of this type has arrived. */
  async message(type: string, nth: number): Promise<void> {
    const arrived = (): readonly WireMessage[] =>
      this.#frames
        .flatMap(({ detail }) => (detail.kind === 'data' ? detail.messages : []))
        .filter(({ typeName }) => typeName.endsWith(`.${type}`));
    while (arrived().length < nth) await sleep(1);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.etcd.close();
  }
}

/** The frames of one call. */
class Call {
  readonly #frames: readonly WireFrame[];

  constructor(frames: readonly WireFrame[]) {
    this.#frames = frames;
  }

  sent(type: string, nth = 1): WireFrame {
    return this.#frame('sent', type, nth);
  }

  received(type: string, nth = 1): WireFrame {
    return this.#frame('received', type, nth);
  }

  /**
   * Returns the first response with an event of this type. The responses on the stream that contain no such event
   * belong to the watch on the waiter's own key.
   */
  withEvent(event: string): WireFrame {
    const frames = this.#frames.filter(
      ({ direction, detail }) =>
        direction === 'received' &&
        detail.kind === 'data' &&
        detail.messages.some((message) => JSON.stringify(fieldsOf(message)).includes(`"type":"${event}"`)),
    );
    return nthOf(1, frames, event);
  }

  #frame(direction: WireFrame['direction'], type: string, nth: number): WireFrame {
    const frames = this.#frames.filter((frame) => frame.direction === direction && frame.type === type);
    return nthOf(nth, frames, `${type} ${direction}`);
  }
}

function nthOf<T>(nth: number, found: readonly T[], what: string): T {
  const each = found[nth - 1];
  if (each === undefined) throw new Error(`no ${what} number ${nth}`);
  return each;
}
