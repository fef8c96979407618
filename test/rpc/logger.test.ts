import { connect } from 'node:net';
import { format } from 'node:util';
import { expect, inject, onTestFinished, test, vi } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import { Client, type ClientEvent, EtcdError, http2, type Logger, objectFirst } from '../../src/index.js';
import { freePorts } from '../../src/testing/etcd/free-ports.js';
import { FaultProxy } from '../../src/testing/index.js';
import type { Transport } from '../../src/transport.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';
import { scriptedServer, scriptedStream } from '../support/scripted-server.js';
import { clientOf, creation, header } from '../support/scripted-watch.js';
import { VirtualClock } from '../support/virtual-clock.js';

/** Returns a logger that adds each line, with its level and its details, to `lines`. */
function recordingLogger(): { readonly logger: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  const record =
    (level: string) =>
    (message: string, details: object): void =>
      void lines.push(`${level}: ${message} ${Object.values(JSON.parse(JSON.stringify(details))).join(' ')}`);
  return { logger: { info: record('info'), warn: record('warn') }, lines };
}

test('the logger receives one line about an unavailable endpoint, and no line about the call that the client retries at another endpoint', async () => {
  const { endpoints } = await ownEtcd();
  const [port] = await freePorts(1);
  const unused = `http://127.0.0.1:${port}`;
  const { logger, lines } = recordingLogger();
  await openClient({ endpoints: [unused, ...endpoints], balance: 'in-order', logger }).put('the-key', 'the-value');
  expect(lines).toEqual([expect.stringMatching(`^warn: endpoint unavailable ${unused} ConnectFailed .*ECONNREFUSED`)]);
});

test('the logger receives lines when watches lose their stream and continue, and when an endpoint is available again', async () => {
  const { endpoints } = await ownEtcd();
  const proxy = await FaultProxy.start(endpoints[0] as string);
  try {
    const { logger, lines } = recordingLogger();
    const etcd = openClient({ endpoints: [proxy.endpoint], logger });
    const watch = etcd.watch('k');
    await watch.created();
    proxy.dropConnections();
    const waits = /^warn: watches wait for a server ConnectionLost .+ 1$/;
    await expect.poll(() => lines).toContainEqual(expect.stringMatching(waits));
    await openClient({ endpoints }).put('k', 'v');
    expect((await watch[Symbol.asyncIterator]().next()).value).toMatchObject({ type: 'put' });
    expect(lines).toContain('info: watches go on 1');
    expect(lines).toContainEqual(
      expect.stringMatching(`^warn: endpoint unavailable ${proxy.endpoint} ConnectionLost .+`),
    );
    expect(lines).toContain(`info: endpoint available again ${proxy.endpoint}`);
    await watch.close();
  } finally {
    await proxy.close();
  }
});

test('the logger receives a line about a lost lease, and no line about a keepalive that the caller closes', async () => {
  const { logger, lines } = recordingLogger();
  const etcd = openClient({ logger });
  const [lost, kept] = await Promise.all([etcd.lease.grant({ ttl: 6 }), etcd.lease.grant({ ttl: 6 })]);
  const alive = etcd.lease.keepAlive(lost.id);
  await alive.renewed();
  await etcd.lease.keepAlive(kept).close();
  await openClient().lease.revoke(lost.id);
  const gone = new Promise((resolve) => alive.signal.addEventListener('abort', resolve));
  await gone;
  const id = lost.id.toString(16);
  const problem = `lease ${id} does not exist on the server`;
  expect(lines).toEqual([`warn: lease lost ${id} LeaseExpired ${problem}`]);
});

test('the logger receives one line when a watch starts to wait for a server and one line when the watch continues, however many attempts fail', async () => {
  const { logger, lines } = recordingLogger();
  let streams = 0;
  const etcd = await clientOf(
    async (stream) => {
      streams += 1;
      const { watchId } = await creation(stream);
      if (streams < 4) return void stream.fail(14, `attempt ${streams}`);
      stream.send({ ...header(1n), watchId, created: true });
      if (streams === 4) return void stream.fail(14, 'later');
    },
    { logger },
  );
  await etcd.watch('k').created();
  await expect.poll(() => streams).toBe(5);
  await expect.poll(() => about(lines, 'watches')).toHaveLength(4);
  expect(about(lines, 'watches')).toEqual([
    expect.stringMatching(/^warn: watches wait for a server \w+ .*attempt 1.* http:\S+ 1$/),
    'info: watches go on 1',
    expect.stringMatching(/^warn: watches wait for a server \w+ .*later.* http:\S+ 1$/),
    'info: watches go on 1',
  ]);
});

test('the logger receives one line when a server without a leader repeatedly refuses a watch, and one line when the watch continues', async () => {
  const { logger, lines } = recordingLogger();
  const cancelReason = 'rpc error: code = Unavailable desc = etcdserver: no leader';
  const etcd = await clientOf(
    async (stream) => {
      for (let refusals = 0; refusals < 3; refusals += 1) {
        const { watchId } = await creation(stream);
        stream.send({ ...header(1n), watchId, created: true, canceled: true, cancelReason });
      }
      const { watchId } = await creation(stream);
      stream.send({ ...header(1n), watchId, created: true });
    },
    { logger },
  );
  await etcd.watch('k').created();
  expect(about(lines, 'watches')).toEqual([
    expect.stringMatching(/^warn: watches wait for a server NoLeader .*no leader/),
    'info: watches go on 1',
  ]);
});

test('the logger receives one line when a keepalive starts to wait for a server, and one line when the keepalive continues', async () => {
  const { logger, lines } = recordingLogger();
  let streams = 0;
  const server = await scriptedServer(
    scriptedStream(methods.lease.leaseKeepAlive, async (stream) => {
      streams += 1;
      const { id } = await stream.receive();
      if (streams < 4) return void stream.fail(14, `attempt ${streams}`);
      stream.send({ id, ttl: 60n });
    }),
  );
  const keepAlive = openClient({ endpoints: [server], logger }).lease.keepAlive(7n);
  await keepAlive.renewed();
  await keepAlive.close();
  expect(about(lines, 'keepalives')).toEqual([
    expect.stringMatching(/^warn: keepalives wait for a server \w+ .*attempt 1.* http:\S+ 1$/),
    'info: keepalives go on 1',
  ]);
});

test('the logger receives one line when the only endpoint becomes unavailable, and one line when it is available again, however often a call is repeated', async () => {
  const { logger, lines } = recordingLogger();
  let attempts = 0;
  const { hostname, port } = new URL(inject('endpoints')[0] as string);
  const transport = http2({
    connect: async () => {
      attempts += 1;
      if (attempts < 4) throw new Error('refused');
      return connect(Number(port), hostname);
    },
  });
  const etcd = openClient({ endpoints: ['http://etcd.invalid:2379'], transport, logger });
  await etcd.get('k');
  expect(lines.map((line) => line.split(' http')[0])).toEqual([
    'warn: endpoint unavailable',
    'info: endpoint available again',
  ]);
});

test('`console` prints each event on one line', async () => {
  const endpoint = `http://127.0.0.1:${(await freePorts(1))[0]}`;
  const written: unknown[][] = [];
  vi.spyOn(console, 'warn').mockImplementation((...args) => void written.push(args));
  onTestFinished(() => void vi.restoreAllMocks());
  await errorOf(openClient({ endpoints: [endpoint], logger: console }).get('k', { timeoutMs: 300 }));
  const lines = written.map((args) => format(...args));
  expect(lines).toEqual([
    expect.stringMatching(/^endpoint unavailable \{ endpoint: '.+', reason: 'ConnectFailed', .+ \}$/),
  ]);
});

test('`onEvent` passes the same events to its listener, also those of a namespace, until the returned function is called', async () => {
  const events: ClientEvent[] = [];
  const { logger, lines } = recordingLogger();
  const etcd = openClient({ logger });
  const off = etcd.onEvent((event) => void events.push(event));
  const lost = await etcd.lease.grant({ ttl: 6 });
  const alive = etcd.namespace(unique()).lease.keepAlive(lost.id);
  await alive.renewed();
  const gone = new Promise((resolve) => alive.signal.addEventListener('abort', resolve));
  await openClient().lease.revoke(lost.id);
  await gone;
  const lease = lost.id.toString(16);
  const problem = `lease ${lease} does not exist on the server`;
  expect(events).toEqual([{ type: 'lease lost', lease, reason: 'LeaseExpired', problem }]);
  expect(lines).toEqual([`warn: lease lost ${lease} LeaseExpired ${problem}`]);
  off();
  etcd.setEndpoints(['http://127.0.0.1:1']);
  expect(events).toHaveLength(1);
  expect(lines).toHaveLength(2);
});

test('a client without a logger or a listener emits one warning when no endpoint has answered for 2 s', async () => {
  const [first = 0, second = 0] = await freePorts(2);
  const endpoints = [first, second].map((port) => `http://127.0.0.1:${port}`);
  const warnings: (Error & { readonly code?: string })[] = [];
  const note = (warning: Error): void => void warnings.push(warning);
  process.on('warning', note);
  onTestFinished(() => void process.off('warning', note));
  const ours = (): string[] =>
    warnings
      .filter(({ code, message }) => code === 'ETCDWIRE_UNREACHABLE' && message.includes(`:${first}`))
      .map(String);
  const [silent, logged] = [openClient({ endpoints }), openClient({ endpoints, logger: recordingLogger().logger })];
  const waits = [silent, silent, logged].map((etcd) => errorOf(etcd.get('k', { timeoutMs: 6_000 })));
  await expect.poll(ours).toHaveLength(1);
  expect(ours()[0]).toMatch(
    /^Warning: etcdwire has had no answer for 2 s, and tries again \(http:.*ECONNREFUSED.*; http:/,
  );
  await Promise.all(waits);
  expect(ours()).toHaveLength(1);
});

test('a client warns again in the next outage after `setEndpoints` has replaced an endpoint that did not answer', async () => {
  const clock = new VirtualClock();
  onTestFinished(() => clock.restore());
  const warnings: string[] = [];
  const emit = vi.spyOn(process, 'emitWarning').mockImplementation((warning) => void warnings.push(String(warning)));
  onTestFinished(() => emit.mockRestore());
  const refusing: Transport = {
    unary: () =>
      Promise.reject(new EtcdError('refused', { code: 'Unavailable', reason: 'ConnectFailed', outcome: 'not-sent' })),
    stream: () => {
      throw new Error('no stream');
    },
    close: async () => {},
  };
  const etcd = new Client({ endpoints: ['http://first:1'], transport: () => refusing });
  onTestFinished(() => etcd.close());
  for (const url of ['http://first:1', 'http://second:1']) {
    etcd.setEndpoints([url]);
    const call = errorOf(etcd.get('k', { timeoutMs: 3_000 }));
    await clock.pass(4_000);
    await call;
  }
  expect(warnings.map((text) => /first|second/.exec(text)?.[0])).toEqual(['first', 'second']);
});

test('a listener of `onEvent` that throws disturbs neither calls nor other listeners', async () => {
  const etcd = openClient();
  etcd.onEvent(() => {
    throw new Error('disk full');
  });
  etcd.onEvent((async () => Promise.reject(new Error('disk full'))) as () => void);
  const types: string[] = [];
  etcd.onEvent(({ type }) => void types.push(type));
  etcd.setEndpoints([...etcd.endpoints, 'http://127.0.0.1:1']);
  expect(types).toEqual(['endpoints changed']);
});

/** A logger with pino's signature. Like pino, it ignores the details if the message comes first. */
class PinoLike {
  readonly lines: string[] = [];

  warn(details: object, message?: string, ...values: unknown[]): void;
  warn(message: string, ...values: unknown[]): void;
  warn(first: object | string, message?: unknown): void {
    const line = typeof first === 'string' ? { msg: first } : { ...first, msg: message };
    this.lines.push(JSON.stringify(line));
  }
}

test('`objectFirst` passes the details of each line before the message, as a logger such as pino expects', async () => {
  const { endpoints } = await ownEtcd();
  const [port] = await freePorts(1);
  const pino = new PinoLike();
  const unused = `http://127.0.0.1:${port}`;
  const etcd = openClient({ endpoints: [unused, ...endpoints], balance: 'in-order', logger: objectFirst(pino) });
  await etcd.put(unique(), 'x');
  expect(pino.lines.map((line) => JSON.parse(line))).toEqual([
    {
      endpoint: unused,
      reason: 'ConnectFailed',
      problem: expect.stringContaining('ECONNREFUSED'),
      msg: 'endpoint unavailable',
    },
  ]);
});

function about(lines: readonly string[], what: string): string[] {
  return lines.filter((line) => line.includes(`: ${what} `));
}

test.each([
  [
    'throws an error',
    () => {
      throw new Error('disk full');
    },
  ],
  ['returns a promise that rejects', () => Promise.reject(new Error('disk full'))],
])('a call succeeds when the only method of the logger is a `warn` method that %s', async (_, warn) => {
  const { endpoints } = await ownEtcd();
  const [port] = await freePorts(1);
  const logger: Logger = { warn };
  const etcd = openClient({ endpoints: [`http://127.0.0.1:${port}`, ...endpoints], balance: 'in-order', logger });
  await etcd.put(unique(), 'x');
});
