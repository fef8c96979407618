import { describe, expect, test } from 'vitest';
import { memberEndpoints } from '../../src/channel/member-endpoints.js';
import { parseEndpoint } from '../../src/host/endpoint.js';

describe('the endpoints that members advertise', () => {
  test('are used, each once, but not those of learners and of members that are not started', () => {
    const members = [member('http://a:1', 'http://a:2'), { ...member('http://b'), isLearner: true }, member()];
    expect(urls(['http://a:1'], [...members, member('http://a:1')])).toEqual(['http://a:1', 'http://a:2']);
  });

  test('without TLS are not used where all that were given have it', () => {
    const members = [member('http://a:1', 'https://b:1')];
    expect(urls(['https://x:1'], members)).toEqual(['https://b:1']);
    expect(urls(['unix:///x'], members)).toEqual(['https://b:1']);
    expect(urls(['http://x:1'], members)).toEqual(['http://a:1', 'https://b:1']);
  });

  test('are not used where they are not allowed, by their URL with its port', () => {
    const members = [member('https://a', 'https://b:1', 'https://A.evil:1')];
    const asked: string[] = [];
    const allow = (url: string): boolean => asked.push(url) > 0 && url === 'https://a:2379';
    expect(urls(['https://x:1'], members, allow)).toEqual(['https://a:2379']);
    expect(asked).toEqual(['https://a:2379', 'https://b:1', 'https://a.evil:1']);
  });

  test('are asked about with yes or no: a promise of an answer is none', () => {
    const allow = (async () => false) as never;
    expect(() => urls(['https://x:1'], [member('https://a')], allow)).toThrow(
      'allowEndpoint: got an object (Promise) for https://a:2379; allowed: a boolean',
    );
  });

  test('that are none, or files of another machine, are left out', () => {
    expect(urls(['http://x:1'], [member('localhost:1', 'unix:///tmp/a', 'http://a:1/path', '')])).toEqual([]);
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
