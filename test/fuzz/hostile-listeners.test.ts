import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Client } from '../../src/index.js';
import { type Listener, listen, MemoryEtcd } from '../../src/testing/index.js';
import { PROGRAM } from '../support/cli.js';
import { fuzz } from '../support/fuzz.js';
import { bytesOf, HOSTILE, type Hostile, isForeign, SECRET } from '../support/hostile-requests.js';

// Anybody who can connect to a listener of this package sends it arbitrary bytes. The process must live and serve its
// other clients, must refuse what only a web page sends, and must write no secret.

const folder = mkdtempSync(join(tmpdir(), 'etcdwire-test-'));
const proxies = new Map<Hostile['listener'], RunningProxy>();

/** An `etcdwire proxy` with a page and a recording, and a client that uses it all the time. */
class RunningProxy {
  readonly recording = join(folder, `${proxies.size}.pcapng`);
  readonly process: ChildProcess;
  output = '';
  url = '';
  page = '';
  client!: Client;

  constructor(endpoint: string, flags: readonly string[]) {
    const own = ['proxy', '--frames', '--serve', '--record', this.recording, '--endpoints', endpoint];
    this.process = spawn(process.execPath, [PROGRAM, ...own, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] });
    for (const output of [this.process.stdout, this.process.stderr])
      output?.setEncoding('utf8').on('data', (text: string) => {
        this.output += text;
      });
  }

  async started(): Promise<this> {
    const found = async (pattern: RegExp): Promise<string> => {
      for (;;) {
        const [, text] = pattern.exec(this.output) ?? [];
        if (text !== undefined) return text;
        await once(this.process.stderr as Readable, 'data');
      }
    };
    this.page = await found(/the traffic is at (\S+)\n/);
    this.url = await found(/export ETCDCTL_ENDPOINTS=(\S+)\n/);
    this.client = new Client({ endpoints: [this.url], timeoutMs: 10_000 });
    return this;
  }
}

let listener: Listener;

beforeAll(async () => {
  listener = await listen(new MemoryEtcd());
  const { endpoint } = listener;
  proxies.set('proxy', await new RunningProxy(endpoint, []).started());
  // The fault concerns no request, but makes the proxy hold each request until it has the whole.
  proxies.set(
    'proxy with a fault',
    await new RunningProxy(endpoint, ['--fault', 'cut rpc=Put prefix=none/']).started(),
  );
});

afterAll(async () => {
  for (const { process, client } of proxies.values()) {
    process.kill('SIGKILL');
    await client.close();
  }
  await listener.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Sends the bytes, and resolves with the answer when the connection is closed. */
async function exchange(url: string, input: Hostile): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
    .setEncoding('latin1')
    .setNoDelay();
  let answer = '';
  socket.on('data', (text) => {
    answer += text;
  });
  socket.on('error', () => {});
  const closed = once(socket, 'close').catch(() => {});
  const bytes = bytesOf(input);
  const pieceBytes = Math.max(1, Math.ceil(bytes.length / input.pieces));
  for (let at = 0; at < bytes.length && !socket.destroyed; at += pieceBytes)
    await new Promise((resolve) => socket.write(bytes.subarray(at, at + pieceBytes), () => setImmediate(resolve)));
  if (input.end === 'reset') socket.resetAndDestroy();
  else socket.end();
  await closed;
  return answer;
}

let puts = 0;

fuzz<Hostile>({
  target: 'hostile-listeners',
  property: 'a listener serves its other clients, and refuses web pages, when a client sends arbitrary bytes',
  inputs: HOSTILE,
  runs: 800,
  parts: { answered: 0.15, refused: 0.05 },
  check: async (input) => {
    const proxy = proxies.get(input.listener) ?? (proxies.get('proxy') as RunningProxy);
    const url = { page: proxy.page, memory: listener.endpoint }[input.listener as string] ?? proxy.url;
    // Node.js answers the header `Expect` before the listener refuses the request.
    const answer = (await exchange(url, input)).replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, '');
    expect(answer).not.toContain('the handler failed');
    if (isForeign(input) && input.listener !== 'memory') expect(answer).not.toMatch(/^HTTP\/1\.1 (?!4)/);
    puts += 1;
    await proxy.client.put('other', `${puts}`);
    expect((await proxy.client.get('other'))?.text()).toBe(`${puts}`);
    if (input.listener === 'page' || puts % 10 === 0) {
      const page = await fetch(`${proxy.page}content?changed`);
      expect([page.status, (await page.text()).includes(SECRET)]).toEqual([200, false]);
    }
    expect([proxy.process.exitCode, proxy.process.signalCode]).toEqual([null, null]);
    return /^HTTP\/1\.1 403/.test(answer) ? 'refused' : answer === '' ? 'closed' : 'answered';
  },
});

test('the proxies end as usual after these requests, and have written no secret', async () => {
  for (const { process, recording, client, ...proxy } of proxies.values()) {
    await client.close();
    const ended = once(process, 'close');
    process.kill('SIGINT');
    expect(await ended).toEqual([0, null]);
    expect(proxy.output).not.toMatch(/cannot show a frame|the proxy has failed/);
    for (const text of [proxy.output, readFileSync(recording, 'latin1')]) expect(text.includes(SECRET)).toBe(false);
  }
});
