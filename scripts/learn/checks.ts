import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { encode, Message } from '../../docs/learn/04-protobuf.js';
import { Connection } from '../../docs/learn/05-call.js';
import { startProxy } from '../../docs/learn/cut-proxy.js';
import { inspectLock, Mutex, Session } from '../../src/concurrency/index.js';
import { Client, op } from '../../src/index.js';

// What the programs of the course must do, and what the answers to its exercises must do.

type Chapter1 = typeof import('../../docs/learn/01-preface.js') &
  typeof import('../../docs/learn/answers/01-preface.js');
type Chapter2 = typeof import('../../docs/learn/02-frames.js') & typeof import('../../docs/learn/answers/02-frames.js');
type Chapter3 = typeof import('../../docs/learn/03-headers.js') &
  typeof import('../../docs/learn/answers/03-headers.js');
type Chapter4 = typeof import('../../docs/learn/04-protobuf.js') &
  typeof import('../../docs/learn/answers/04-protobuf.js');
type Chapter5 = typeof import('../../docs/learn/05-call.js') & typeof import('../../docs/learn/answers/05-call.js');
type Chapter6 = typeof import('../../docs/learn/06-status.js') & typeof import('../../docs/learn/answers/06-status.js');
type Chapter7 = typeof import('../../docs/learn/07-watch.js') & typeof import('../../docs/learn/answers/07-watch.js');
type Chapter8 = typeof import('../../docs/learn/08-lease.js') & typeof import('../../docs/learn/answers/08-lease.js');
type Chapter9 = typeof import('../../docs/learn/09-queue.js') & typeof import('../../docs/learn/answers/09-queue.js');
type Chapter10 = typeof import('../../docs/learn/10-lock.js') & typeof import('../../docs/learn/answers/10-lock.js');

/** The server of a check. */
interface Server {
  readonly address: string;
  /** A client of the server that makes the changes that a check needs. */
  readonly etcd: Client;
  /** Opens a connection of the course to an address, by default to the server. It is closed after the check. */
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

const PROGRAM = undefined;
/** A check that takes longer has failed, in milliseconds. */
const TIME_LIMIT_MS = 10_000;

function checks<X>(add: (check: AddCheck<X>) => void): Check[] {
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
      throw new Error(`waited ${TIME_LIMIT_MS / 1_000} s for something that did not happen`);
    });
    late.catch(() => {});
    await Promise.race([run({ address, etcd, connect }), late]);
  } finally {
    stop.abort();
    for (const connection of connections) connection.close();
  }
}

async function* chunksOf(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function collected<T>(items: AsyncIterable<T>, count = Number.POSITIVE_INFINITY): Promise<T[]> {
  const all: T[] = [];
  if (count > 0) for await (const item of items) if (all.push(item) === count) break;
  return all;
}

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

/** Starts a server that accepts connections, and sends nothing. */
async function silentServer(): Promise<{ readonly address: string } & AsyncDisposable> {
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
function newName(): string {
  names += 1;
  return `learn-${process.pid}-${names}`;
}

/** The checks by the number of the chapter. */
export const CHECKS: Readonly<Record<number, readonly Check[]>> = {
  1: checks<Chapter1>((check) => {
    check('open', PROGRAM, 'the server answers with a SETTINGS frame', async ({ open }, { address }) => {
      const socket = open(address);
      const [bytes] = await collected(socket as AsyncIterable<Buffer>, 1);
      assert.equal(bytes?.readUInt8(3), 4);
    });
    check('settings', 1, 'encodes two settings', ({ settings }) => {
      assert.deepEqual(
        settings([
          [2, 0],
          [4, 4194304],
        ]),
        hex('00000c 04 00 00000000 0002 00000000 0004 00400000'),
      );
    });
    check('isHttp2', 2, 'tells SETTINGS from an HTTP/1 response and from too few bytes', ({ isHttp2 }) => {
      assert.equal(isHttp2(hex('000006 04 00 00000000 0005 00004000')), true);
      assert.equal(isHttp2(Buffer.from('HTTP/1.1 400 Bad Request\r\n')), false);
      assert.equal(isHttp2(hex('0000')), false);
    });
    check(
      'openWithin',
      3,
      'rejects when a server is silent, and resolves otherwise',
      async ({ openWithin }, { address }) => {
        (await openWithin(address, 5_000)).destroy();
        await using silent = await silentServer();
        await assert.rejects(openWithin(silent.address, 50));
      },
    );
  }),
  2: checks<Chapter2>((check) => {
    check('encodeFrame', PROGRAM, 'encodes the nine bytes of a header', ({ encodeFrame }) => {
      assert.deepEqual(encodeFrame(1, 4, 5, Buffer.from('abc')), hex('000003 01 04 00000005 616263'));
    });
    check(
      'readFrames',
      PROGRAM,
      'reads frames that arrive byte by byte, and all at once',
      async ({ encodeFrame, readFrames }) => {
        const frames = [encodeFrame(0, 1, 3, Buffer.from('abc')), encodeFrame(4, 1, 0), encodeFrame(1, 5, 2 ** 31 - 1)];
        for (const size of [1, 10, 1_000]) {
          const read = await collected(readFrames(chunksOf(Buffer.concat(frames), size)));
          assert.deepEqual(
            read.map((frame) => encodeFrame(frame.type, frame.flags, frame.stream, frame.payload)),
            frames,
          );
        }
      },
    );
    check('describe', 1, 'describes frames in a line', ({ describe }) => {
      const payload = Buffer.alloc(8);
      assert.equal(describe({ type: 6, flags: 1, stream: 0, payload }), 'PING ACK, stream 0, 8 bytes');
      assert.equal(describe({ type: 0, flags: 1, stream: 7, payload }), 'DATA, stream 7, 8 bytes');
    });
    check(
      'readLimitedFrames',
      2,
      'reads frames up to the limit, and throws at a longer one before it arrives',
      async ({ readLimitedFrames }) => {
        const frames = readLimitedFrames(chunksOf(hex('000001 00 00 00000001 61 000002 00 00 00000001'), 1), 1);
        assert.equal((await frames.next()).value.payload.toString(), 'a');
        await assert.rejects(frames.next());
      },
    );
    check('roundTripMs', 3, 'measures a time above 0', async ({ roundTripMs }, { address }) => {
      assert.ok((await roundTripMs(address)) > 0);
    });
  }),
  3: checks<Chapter3>((check) => {
    check('encodeHeaders', PROGRAM, 'encodes fields without a table', ({ encodeHeaders }) => {
      assert.deepEqual(encodeHeaders({ te: 'trailers' }), hex('00 02 7465 08 747261696c657273'));
    });
    check('decodeHeaders', PROGRAM, 'decodes the trailers of etcd', ({ decodeHeaders }) => {
      const block = hex('20 88 00 889acac8b21234da8f 01 30 00 899acac8b5254207317f 00 5f 8b1d75d0620d263d4c4d6564');
      const fields = { ':status': '200', 'grpc-status': '0', 'grpc-message': '', 'content-type': 'application/grpc' };
      assert.deepEqual(Object.fromEntries(decodeHeaders(block)), fields);
    });
    check('encodeInteger', 1, 'encodes the examples of RFC 7541, appendix C.1', ({ encodeInteger }) => {
      assert.deepEqual(
        [encodeInteger(10, 5), encodeInteger(1337, 5), encodeInteger(42, 8)],
        [hex('0a'), hex('1f9a0a'), hex('2a')],
      );
    });
    check('encodeHuffman', 2, 'encodes the examples of RFC 7541, appendix C.4', ({ encodeHuffman }) => {
      assert.deepEqual(encodeHuffman('www.example.com'), hex('f1e3c2e5f23a6ba0ab90f4ff'));
      assert.deepEqual(encodeHuffman('no-cache'), hex('a8eb10649cbf'));
    });
    check('encodePostOverHttp', 3, 'encodes two fields in two bytes', ({ encodePostOverHttp }) => {
      assert.deepEqual(encodePostOverHttp(), hex('8386'));
    });
  }),
  4: checks<Chapter4>((check) => {
    check('encode', PROGRAM, 'encodes integers, texts, nested messages and repeated fields', ({ encode }) => {
      assert.deepEqual(encode({ 1: 600, 2: 10n }), hex('08d804 100a'));
      assert.deepEqual(encode({ 1: -1 }), hex('08 ffffffffffffffffff01'));
      assert.deepEqual(encode({ 1: { 1: 'a' }, 2: [1, 2] }), hex('0a03 0a0161 1001 1002'));
    });
    check('Message', PROGRAM, 'decodes what `encode` encodes, and fields in any order', ({ encode, Message }) => {
      const message = new Message(Buffer.concat([encode({ 3: 'x', 2: [{ 1: 1 }, { 1: 2 }] }), encode({ 1: -5n })]));
      assert.equal(message.int(1), -5n);
      assert.deepEqual(
        message.messages(2).map((nested) => nested.int(1)),
        [1n, 2n],
      );
      assert.equal(`${message.bytes(3)}`, 'x');
      assert.deepEqual([message.int(9), `${message.bytes(9)}`, message.messages(9)], [0n, '', []]);
    });
    check('list', 1, 'lists the fields of any message', ({ list }) => {
      assert.deepEqual(list(hex('08d804 1203616263 10 01')), ['1: 600', '2: 3 bytes', '2: 1']);
    });
    check('zigzag', 2, 'maps 0, -1, 1, -2 to 0, 1, 2, 3', ({ zigzag }) => {
      assert.deepEqual([0n, -1n, 1n, -2n, -(2n ** 63n)].map(zigzag), [0n, 1n, 2n, 3n, 2n ** 64n - 1n]);
    });
    check('merge', 3, 'replaces the values of the first message', ({ merge, Message }) => {
      const message = new Message(merge({ 1: 1, 2: 'old' }, { 2: 'new' }));
      assert.deepEqual([message.int(1), `${message.bytes(2)}`], [1n, 'new']);
    });
  }),
  5: checks<Chapter5>((check) => {
    check(
      'Connection',
      PROGRAM,
      'makes 100 calls with responses of 1 kB',
      async ({ Connection }, { address, etcd }) => {
        const key = newName();
        await etcd.put(key, 'x'.repeat(1_000));
        const connection = new Connection(address);
        const get = (): Promise<number> =>
          new Promise((resolve, reject) => {
            let bytes = Buffer.alloc(0);
            const send = connection.start('/etcdserverpb.KV/Range', (frame) => {
              if (frame instanceof Error) return reject(frame);
              if (frame.type === 0) bytes = Buffer.concat([bytes, frame.payload]);
              else if ((frame.flags & 1) === 1)
                resolve(new Message(bytes.subarray(5)).messages(2)[0]?.bytes(5).length ?? 0);
            });
            send(encode({ 1: key }), true);
          });
        for (let round = 0; round < 100; round += 1) assert.equal(await get(), 1_000);
        connection.close();
      },
    );
    check(
      'Connection',
      PROGRAM,
      'tells each stream that the connection has ended',
      async ({ Connection }, { address }) => {
        const proxy = await startProxy(address);
        const connection = new Connection(proxy.address);
        const ended = new Promise<void>((resolve) => {
          connection.start('/etcdserverpb.Watch/Watch', (frame) => frame instanceof Error && resolve());
        });
        proxy.close();
        await ended;
      },
    );
    check('put', 1, 'puts a key', async ({ put }, { connect, etcd }) => {
      const key = newName();
      await put(connect(), key, 'violet');
      assert.equal((await etcd.get(key))?.text(), 'violet');
    });
    check('getAll', 2, 'gets several keys at once', async ({ getAll }, { connect, etcd }) => {
      const keys = [newName(), newName(), newName()];
      await etcd.put(keys[0] ?? '', 'a');
      await etcd.put(keys[2] ?? '', 'c');
      assert.deepEqual(await getAll(connect(), keys), ['a', undefined, 'c']);
    });
    check('version', 3, "resolves with the server's version", async ({ version }, { address, connect, etcd }) => {
      assert.equal(await version(connect()), (await etcd.maintenance.status(`http://${address}`)).version);
    });
  }),
  6: checks<Chapter6>((check) => {
    check('call', PROGRAM, 'resolves with a response of 200 kB', async ({ call }, { connect, etcd }) => {
      const key = newName();
      await etcd.put(key, 'x'.repeat(200_000));
      const response = await call(connect(), '/etcdserverpb.KV/Range', { 1: key });
      assert.equal(response.messages(2)[0]?.bytes(5).length, 200_000);
    });
    check(
      'call',
      PROGRAM,
      'throws the status and the message of the server',
      async ({ call, CallError }, { connect }) => {
        const error = await call(connect(), '/etcdserverpb.Lease/LeaseRevoke', { 1: 12_345 }).catch((thrown) => thrown);
        assert.ok(error instanceof CallError);
        assert.deepEqual([error.status, error.message], [5, 'etcdserver: requested lease not found']);
      },
    );
    check('call', PROGRAM, 'throws status 14 when the connection is lost', async ({ call }, { address, connect }) => {
      const proxy = await startProxy(address);
      const connection = connect(proxy.address);
      await call(connection, '/etcdserverpb.KV/Range', { 1: 'x' });
      proxy.close();
      await assert.rejects(call(connection, '/etcdserverpb.KV/Range', { 1: 'x' }), { status: 14 });
      await assert.rejects(call(connection, '/etcdserverpb.KV/Range', { 1: 'x' }), { status: 14 });
    });
    check('isOutcomeUnknown', 1, 'knows which statuses prove nothing', async ({ isOutcomeUnknown, CallError }) => {
      const of = (status: number): boolean => isOutcomeUnknown(Object.assign(new CallError(''), { status }));
      for (const status of [1, 2, 4, 13, 14]) assert.equal(of(status), true, `status ${status}: expected true`);
      for (const status of [3, 5, 7, 12]) assert.equal(of(status), false, `status ${status}: expected false`);
    });
    check(
      'callWithin',
      2,
      'throws status 4 when the server does not answer',
      async ({ callWithin }, { connect, etcd }) => {
        await using silent = await silentServer();
        const late = callWithin(connect(silent.address), '/etcdserverpb.KV/Range', { 1: 'x' }, 50);
        await assert.rejects(late, { status: 4 });
        const key = newName();
        await etcd.put(key, 'x');
        assert.equal((await callWithin(connect(), '/etcdserverpb.KV/Range', { 1: key }, 5_000)).messages(2).length, 1);
      },
    );
    check(
      'read',
      3,
      'reads again after the connection was lost, but not after a refusal',
      async ({ read }, { address, etcd }) => {
        const key = newName();
        await etcd.put(key, 'x');
        const proxy = await startProxy(address);
        const reading = read(proxy.address, '/etcdserverpb.KV/Range', { 1: key }, 50);
        proxy.cut();
        assert.equal((await reading).messages(2).length, 1);
        proxy.close();
        await assert.rejects(read(proxy.address, '/etcdserverpb.KV/Range', { 1: key }, 3), { status: 14 });
        await assert.rejects(read(address, '/etcdserverpb.KV/Nothing', {}, 3), { status: 12 });
      },
    );
  }),
  7: checks<Chapter7>((check) => {
    check(
      'watch',
      PROGRAM,
      'yields each change once, in order, although connections are lost',
      async ({ watch }, { address, etcd }) => {
        const proxy = await startProxy(address);
        const key = newName();
        const { header } = await etcd.put(key, '0');
        const values: string[] = [];
        const writing = (async () => {
          for (let value = 1; value < 30; value += 1) {
            await etcd.put(key, `${value}`);
            if (value % 10 === 0) proxy.cut();
          }
          await etcd.delete(key);
        })();
        for await (const event of watch(proxy.address, key, header.revision)) {
          if (event.type === 'delete') break;
          values.push(event.value);
        }
        await writing;
        proxy.close();
        assert.deepEqual(
          values,
          Array.from({ length: 30 }, (_, value) => `${value}`),
        );
      },
    );
    check(
      'watchPrefix',
      1,
      'yields the changes of a transaction together',
      async ({ watchPrefix }, { address, etcd }) => {
        const name = newName();
        const { header } = await etcd.txn({ then: [op.put(`${name}/a`, '1'), op.put(`${name}/b`, '2')] });
        await etcd.put(`${name}/c`, '3');
        const batches: { readonly key: string; readonly value: string }[][] = [];
        for await (const batch of watchPrefix(address, `${name}/`, header.revision))
          if (batches.push(batch) && batches.flat().length === 3) break;
        const changes = batches.map((batch) => batch.map(({ key, value }) => `${key.slice(name.length)}=${value}`));
        assert.deepEqual(changes.flat(), ['/a=1', '/b=2', '/c=3']);
        assert.ok((changes[0]?.length ?? 0) >= 2, 'the first array does not contain both changes of the transaction');
      },
    );
    check('watchPrefix', 2, 'yields the values from before', async ({ watchPrefix }, { address, etcd }) => {
      const name = newName();
      const { header } = await etcd.put(`${name}/a`, '1');
      await etcd.put(`${name}/a`, '2');
      await etcd.delete(`${name}/a`);
      const events = watchPrefix(address, `${name}/`, header.revision + 1n);
      const seen: string[] = [];
      for await (const batch of events) {
        seen.push(...batch.map(({ type, previous }) => `${type} after ${previous}`));
        if (seen.length === 2) break;
      }
      assert.deepEqual(seen, ['put after 1', 'delete after 2']);
    });
    check(
      'watchPrefix',
      3,
      'says which revision the history begins with',
      async ({ watchPrefix }, { address, etcd }) => {
        const name = newName();
        const { header } = await etcd.put(`${name}/a`, '1');
        await etcd.put(`${name}/a`, '2');
        await etcd.compact(header.revision + 1n);
        await assert.rejects(watchPrefix(address, `${name}/`, header.revision).next(), {
          compactRevision: header.revision + 1n,
        });
      },
    );
  }),
  8: checks<Chapter8>((check) => {
    check(
      'grant',
      PROGRAM,
      'keeps a lease alive for longer than its TTL, and revokes it',
      async ({ grant }, { connect, etcd }) => {
        const lease = await grant(connect(), 2);
        await pause(3_500);
        assert.equal(lease.isAlive(), true, 'isAlive() is false after 3.5 s, although the lease has a TTL of 2 s');
        assert.ok((await etcd.lease.list()).ids.includes(lease.id));
        await lease.revoke();
        assert.equal(lease.isAlive(), false, 'isAlive() is true after revoke()');
        assert.ok(!(await etcd.lease.list()).ids.includes(lease.id));
      },
    );
    check(
      'grant',
      PROGRAM,
      'says that the lease may have ended when the connection is lost',
      async ({ grant }, { address, connect }) => {
        const proxy = await startProxy(address);
        const lease = await grant(connect(proxy.address), 2);
        proxy.close();
        await pause(2_100);
        assert.equal(lease.isAlive(), false, 'isAlive() is true 2.1 s after the connection was lost');
      },
    );
    check(
      'secondsLeft',
      1,
      'tells the time that is left, and -1 for a lease that does not exist',
      async ({ secondsLeft }, { connect, etcd }) => {
        const { id } = await etcd.lease.grant({ ttl: 100 });
        assert.ok((await secondsLeft(connect(), id)) > 90n);
        assert.equal(await secondsLeft(connect(), 12_345n), -1n);
      },
    );
    check('putWithLease', 2, 'puts a key that ends with the lease', async ({ putWithLease }, { connect, etcd }) => {
      const { id } = await etcd.lease.grant({ ttl: 100 });
      const key = newName();
      await putWithLease(connect(), key, 'x', id);
      assert.equal((await etcd.get(key))?.text(), 'x');
      await etcd.lease.revoke(id);
      assert.equal(await etcd.get(key), undefined);
    });
    check('leases', 3, 'lists the leases', async ({ leases }, { connect, etcd }) => {
      const { id } = await etcd.lease.grant({ ttl: 100 });
      assert.ok((await leases(connect())).includes(id));
    });
  }),
  9: checks<Chapter9>((check) => {
    check('enter', PROGRAM, 'puts the key once, also if it is called again', async ({ enter }, { connect, etcd }) => {
      const { id } = await etcd.lease.grant({ ttl: 100 });
      const key = `${newName()}/${id.toString(16)}`;
      const revision = await enter(connect(), key, id);
      assert.equal(await enter(connect(), key, id), revision);
      assert.deepEqual([(await etcd.get(key))?.createRevision, (await etcd.get(key))?.version], [revision, 1n]);
    });
    check(
      'waitForTurn',
      PROGRAM,
      'waits for all older keys, also if the one directly ahead goes first',
      async ({ enter, waitForTurn }, { address, connect, etcd }) => {
        const name = newName();
        const { id } = await etcd.lease.grant({ ttl: 100 });
        const connection = connect();
        const revisions: bigint[] = [];
        for (const key of ['a', 'b', 'c']) revisions.push(await enter(connection, `${name}/${key}`, id));
        let hasTurn = false;
        const waiting = waitForTurn(address, connection, name, revisions[2] ?? 0n).then(() => {
          hasTurn = true;
        });
        await pause(200);
        await etcd.delete(`${name}/b`);
        await pause(300);
        assert.equal(hasTurn, false, 'it had its turn while an older key existed');
        await etcd.delete(`${name}/a`);
        await waiting;
      },
    );
    check('create', 1, 'puts a key only once', async ({ create }, { connect, etcd }) => {
      const key = newName();
      const connection = connect();
      const [a, b] = await Promise.all([create(connection, key, 'a'), create(connection, key, 'b')]);
      assert.notEqual(a, b);
      assert.equal((await etcd.get(key))?.text(), a ? 'a' : 'b');
    });
    check('increment', 2, 'loses no increment of 20 at once', async ({ increment }, { connect, etcd }) => {
      const key = newName();
      const connection = connect();
      await Promise.all(Array.from({ length: 20 }, () => increment(connection, key)));
      assert.equal((await etcd.get(key))?.text(), '20');
    });
    check('queueOf', 3, 'lists the queue in the order of creation', async ({ queueOf }, { connect, etcd }) => {
      const name = newName();
      for (const key of ['c', 'a', 'b']) await etcd.put(`${name}/${key}`, '');
      assert.deepEqual(
        await queueOf(connect(), name),
        ['c', 'a', 'b'].map((key) => `${name}/${key}`),
      );
    });
  }),
  10: checks<Chapter10>((check) => {
    check(
      'lock',
      PROGRAM,
      'lets five processes in one at a time, in the order of their tokens',
      async ({ lock }, { address }) => {
        const name = newName();
        let holders = 0;
        const tokens: bigint[] = [];
        await Promise.all(
          Array.from({ length: 5 }, async () => {
            const held = await lock(address, name);
            holders += 1;
            assert.equal(holders, 1);
            tokens.push(held.token);
            await pause(20);
            holders -= 1;
            await held.unlock();
          }),
        );
        assert.deepEqual(
          tokens,
          tokens.toSorted((a, b) => Number(a - b)),
        );
      },
    );
    check(
      'lock',
      PROGRAM,
      "excludes the locks of etcdwire, which are also those of Go's client and etcdctl",
      async ({ lock }, { address, etcd }) => {
        const name = newName();
        const held = await lock(address, name);
        await using session = await Session.open(etcd);
        const waiting = new Mutex(session, name).lock();
        while ((await inspectLock(etcd, name)).waiters.length === 0) await pause(10);
        assert.equal((await inspectLock(etcd, name)).holder?.token, held.token);
        await held.unlock();
        await (await waiting).release();
      },
    );
    check(
      'lock',
      PROGRAM,
      'refuses the write of a holder that has lost the lock',
      async ({ lock }, { address, etcd }) => {
        const name = newName();
        const held = await lock(address, name);
        assert.equal(await held.put(`${name}-value`, 'first'), true);
        await etcd.lease.revoke((await inspectLock(etcd, name)).holder?.leaseId ?? 0n);
        assert.equal(await held.put(`${name}-value`, 'stale'), false);
        assert.equal((await etcd.get(`${name}-value`))?.text(), 'first');
      },
    );
    check('withLock', 1, 'releases the lock also if the action throws', async ({ withLock }, { address, etcd }) => {
      const name = newName();
      assert.equal(await withLock(address, name, async () => 'result'), 'result');
      const failing = withLock(address, name, async () => {
        throw new Error('failed');
      });
      await assert.rejects(failing, /failed/);
      assert.equal((await inspectLock(etcd, name)).holder, undefined);
    });
    check(
      'tryLock',
      2,
      'resolves with undefined if the lock is held, and leaves nothing in the queue',
      async ({ tryLock }, { address, etcd }) => {
        const name = newName();
        const held = await tryLock(address, name);
        assert.ok(held !== undefined);
        assert.equal(await tryLock(address, name), undefined);
        assert.deepEqual((await inspectLock(etcd, name)).waiters, []);
        await held.unlock();
      },
    );
    check('lockUntil', 3, 'leaves the queue when the signal aborts', async ({ lockUntil }, { address, etcd }) => {
      const name = newName();
      const held = await lockUntil(address, name, new AbortController().signal);
      const stop = new AbortController();
      const waiting = lockUntil(address, name, stop.signal);
      while ((await inspectLock(etcd, name)).waiters.length === 0) await pause(10);
      stop.abort(new Error('stopped'));
      await assert.rejects(waiting, /stopped/);
      assert.deepEqual((await inspectLock(etcd, name)).waiters, []);
      await held.unlock();
    });
  }),
};
