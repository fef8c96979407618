import { describe, expect, it, onTestFinished } from 'vitest';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { memberEndpoints, withAutoSync } from '../../src/rpc/endpoint-discovery.js';
import type { Transport } from '../../src/wire/transport.js';
import { VirtualClock } from '../support/virtual-clock.js';

describe('`memberEndpoints`', () => {
  it('returns each endpoint of the voting members only once, and skips learners and members that have not started', () => {
    const members = [member('http://a:1', 'http://a:2'), { ...member('http://b'), isLearner: true }, member()];
    expect(urls(['http://a:1'], [...members, member('http://a:1')])).toEqual(['http://a:1', 'http://a:2']);
  });

  it('leaves out endpoints without TLS when every configured endpoint uses TLS or a Unix socket', () => {
    const members = [member('http://a:1', 'https://b:1')];
    expect(urls(['https://x:1'], members)).toEqual(['https://b:1']);
    expect(urls(['unix:///x'], members)).toEqual(['https://b:1']);
    expect(urls(['http://x:1'], members)).toEqual(['http://a:1', 'https://b:1']);
  });

  it('leaves out endpoints that `allowEndpoint` refuses, and calls `allowEndpoint` with URLs that always include a port', () => {
    const members = [member('https://a', 'https://b:1', 'https://A.evil:1')];
    const asked: string[] = [];
    const allow = (url: string): boolean => asked.push(url) > 0 && url === 'https://a:2379';
    expect(urls(['https://x:1'], members, allow)).toEqual(['https://a:2379']);
    expect(asked).toEqual(['https://a:2379', 'https://b:1', 'https://a.evil:1']);
  });

  it('throws when a member list advertises more than 100 endpoints, and asks `allowEndpoint` about none of them', () => {
    const many = (count: number) => Array.from({ length: count }, (_, index) => `http://a:${index + 1}`);
    expect(urls(['http://x:1'], [member(...many(60)), member(...many(100).slice(60))])).toEqual(many(100));
    let asked = 0;
    const allow = (): boolean => ++asked > 0;
    expect(() => urls(['http://x:1'], [member(...many(60)), member(...many(101).slice(60))], allow)).toThrow(
      'sync: the member list has 101 client URLs; allowed: at most 100; the client keeps its endpoints',
    );
    expect(asked).toBe(0);
  });

  it('throws when `allowEndpoint` returns a promise', () => {
    const allow = (async () => false) as never;
    expect(() => urls(['https://x:1'], [member('https://a')], allow)).toThrow(
      'allowEndpoint: got a function that returned an object (Promise) for https://a:2379; allowed: a function that returns true or false',
    );
  });

  it('leaves out malformed URLs and Unix sockets that a member advertises', () => {
    expect(urls(['http://x:1'], [member('localhost:1', 'unix:///tmp/a', 'http://a:1/path', '')])).toEqual([]);
  });
});

describe('`withAutoSync`', () => {
  it('syncs at each interval, and not again after the client is closed during a sync', async () => {
    const clock = new VirtualClock();
    onTestFinished(() => clock.restore());
    let syncs = 0;
    let endSync = (): void => {};
    const inner = { unary: async () => ({}), stream: () => ({}), close: async () => {} } as unknown as Transport;
    const sync = (): Promise<void> => {
      syncs += 1;
      return new Promise((resolve) => {
        endSync = resolve;
      });
    };
    const transport = withAutoSync(inner, sync, 5);
    await transport.unary({} as never);
    for (const expected of [2, 3]) {
      endSync();
      await clock.pass(4);
      expect(syncs).toBe(expected - 1);
      await clock.pass(1);
      expect(syncs).toBe(expected);
    }
    await transport.close();
    endSync();
    await clock.pass(1_000);
    expect([syncs, clock.timers]).toEqual([3, 0]);
  });
});

function member(...clientUrls: string[]) {
  return { clientUrls, isLearner: false };
}

function urls(
  configured: readonly string[],
  members: Parameters<typeof memberEndpoints>[0],
  allow: (url: string) => boolean = () => true,
): string[] {
  const endpoints = configured.map((url) => parseEndpoint(url, 'endpoints'));
  return memberEndpoints(members, endpoints, allow).map(({ url }) => url);
}
