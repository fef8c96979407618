import { Duplex } from 'node:stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { data, grpcMessage, headers, PREFACE, settings } from '../../../test/support/http2-frames.js';
import { requestBlock } from '../../../test/support/http2-raw-client.js';
import { VirtualClock } from '../../../test/support/virtual-clock.js';
import { FaultRules, parseFault } from '../src/proxy/fault-rules.js';
import { Relay } from '../src/proxy/relay.js';

// One connection of `etcdwire proxy`, without sockets and on a virtual clock.

const DELAY_MS = 1_000;

let clock: VirtualClock;

beforeEach(() => {
  clock = new VirtualClock();
});

afterEach(() => clock.restore());

/** One end of a connection. `received` contains what the relay has written to it. */
class End extends Duplex {
  received = Buffer.alloc(0);

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    this.received = Buffer.concat([this.received, bytes]);
    done();
  }
}

function connection(protocol: 'HTTP/2' | 'HTTP/1.1', ...faults: readonly string[]) {
  const [client, server] = [new End(), new End()];
  const options = {
    client,
    server,
    isHttp2: protocol === 'HTTP/2',
    connection: 1,
    endpoint: 'http://a',
    rules: new FaultRules(faults.map((fault) => parseFault(fault, '--fault'))),
    gate: () => undefined,
    headTimeoutMs: 60_000,
    traffic: { frame: () => {} },
    sendCopy: () => {},
    onProblem: () => {},
  };
  const relay = new Relay(options, () => {});
  if (protocol === 'HTTP/2') client.push(Buffer.concat([Buffer.from(PREFACE), settings()]));
  let requests = 0;
  return {
    relay,
    /** Sends a put of the key. */
    put: async (key: string): Promise<void> => {
      client.push(protocol === 'HTTP/2' ? http2Put(2 * requests + 1, key) : http1Put(key));
      requests += 1;
      // The streams of Node.js pass bytes on in later turns.
      for (let turn = 0; turn < 5; turn += 1) await clock.pass(0);
    },
    /** Whether the server has received the put of the key. */
    hasArrived: (key: string): boolean => server.received.includes(protocol === 'HTTP/2' ? key : btoa(key)),
  };
}

function http2Put(streamId: number, key: string): Buffer {
  const request = Buffer.concat([Buffer.from([0x0a, key.length]), Buffer.from(key), Buffer.from([0x12, 1, 0x76])]);
  return Buffer.concat([
    headers(streamId, requestBlock([], '/etcdserverpb.KV/Put')),
    data(streamId, grpcMessage(request), { endStream: true }),
  ]);
}

function http1Put(key: string): Buffer {
  const body = JSON.stringify({ key: btoa(key), value: btoa('v') });
  return Buffer.from(`POST /v3/kv/put HTTP/1.1\r\nHost: etcd\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
}

test.for([
  ['HTTP/2', true],
  // Answers of HTTP/1.1 have the order of the requests, so a later request must not overtake a delayed one.
  ['HTTP/1.1', false],
] as const)(
  'a put with the fault "delay" arrives when the delay has passed, and no earlier (%s)',
  async ([protocol, isOvertaken]) => {
    const { put, hasArrived } = connection(protocol, 'delay=1s rpc=Put prefix=late');
    await put('late');
    await put('at-once');
    await clock.pass(DELAY_MS - 1);
    expect([hasArrived('late'), hasArrived('at-once')]).toEqual([false, isOvertaken]);
    await clock.pass(1);
    expect([hasArrived('late'), hasArrived('at-once')]).toEqual([true, true]);
  },
);

test.for(['HTTP/2', 'HTTP/1.1'] as const)(
  'a delayed put does not arrive after the connection has become silent (%s)',
  async (protocol) => {
    const faults = ['delay=1s rpc=Put prefix=late', 'silent rpc=Put prefix=silent'];
    const { put, hasArrived } = connection(protocol, ...faults);
    await put('late');
    await put('silent');
    await clock.pass(10 * DELAY_MS);
    expect([hasArrived('late'), hasArrived('silent')]).toEqual([false, false]);
  },
);

test('a delayed put does not arrive after the connection was closed', async () => {
  const { put, hasArrived, relay } = connection('HTTP/2', 'delay=1s rpc=Put prefix=late');
  await put('late');
  relay.close();
  await clock.pass(10 * DELAY_MS);
  expect(hasArrived('late')).toBe(false);
});
