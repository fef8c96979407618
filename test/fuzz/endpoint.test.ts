import fc from 'fast-check';
import { expect } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { type Endpoint, parseEndpoint } from '../../src/host/endpoint.js';
import { fuzz } from '../support/fuzz.js';

/** The secret in generated URLs. It appears only in the credentials, the query and the fragment of a URL. */
const SECRET = 'hunter2';

const host = fc.oneof(
  fc.constantFrom('a', 'etcd-0.example.com', '127.0.0.1', '[::1]', '[fe80::1]', '0x7f.1', 'bücher.example', '%61', ''),
  fc.domain(),
  fc.ipV4(),
  fc.ipV6().map((address) => `[${address}]`),
);
const port = fc.oneof(
  fc.constantFrom('', ':', ':80', ':443', ':21', ':2379', ':0', ':00080', ':65535', ':65536', ':x'),
  fc.nat({ max: 70_000 }).map((number) => `:${number}`),
);
const path = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('', '/', '//', '/v3', '/tmp/etcd.sock', '/a%20b', '/%zz', '/%ff', '/../a') },
  { weight: 1, arbitrary: fc.webPath() },
);
const scheme = fc.constantFrom(
  'http://',
  'https://',
  'unix://',
  'HTTP://',
  'http:',
  'http:\\\\',
  'ftp://',
  'unix:',
  '',
);
const secret = fc.constantFrom('', '', '', `root:${SECRET}@`, `${SECRET}@`, `:${SECRET}@`, `root@${SECRET}@`);
const tail = fc.constantFrom('', '', '', ' ', '\n', '\0', `?token=${SECRET}`, `#${SECRET}`, `/?${SECRET}`, '?', '#');
const url = fc.tuple(scheme, secret, host, port, path, tail).map((parts) => parts.join(''));

fuzz<string>({
  target: 'endpoint',
  property:
    '`parseEndpoint` returns an endpoint whose URL parses to the same endpoint, or throws an error that contains no secret',
  inputs: fc.oneof(
    { weight: 8, arbitrary: url },
    { weight: 1, arbitrary: fc.webUrl({ withFragments: true, withQueryParameters: true }) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
    { weight: 1, arbitrary: fc.string().map((text) => `http://${text}`) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary' }).map((text) => `unix:///${text}`) },
  ),
  runs: 20_000,
  parts: { endpoint: 0.05, refused: 0.3 },
  check: (text) => {
    let endpoint: Endpoint;
    try {
      endpoint = parseEndpoint(text, 'endpoint');
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
      expect(error.message).toMatch(/^endpoint: got /);
      expect(error.message).not.toContain(SECRET);
      return 'refused';
    }
    expect(JSON.stringify(endpoint)).not.toContain(SECRET);
    expect(parseEndpoint(endpoint.url, 'endpoint')).toEqual(endpoint);
    const { address, tls } = endpoint;
    expect(tls).toBe(/^https:/i.test(text));
    if ('path' in address) expect(address.path.length > 1 && address.path.startsWith('/')).toBe(true);
    else {
      // Parse the text with both schemes to find a port that the text contains, because `URL.port` is empty for a
      // scheme's default port: 80 for http and 443 for https.
      const full = text.includes('://') ? text : `http://${text}`;
      const ports = ['http', 'https'].map((other) => new URL(full.replace(/^\w+/, other)).port);
      expect(address.port).toBe(Number(ports.find((given) => given !== '') ?? 2379));
      expect(address.host).toMatch(/^[^[\]/\s]+$/);
    }
    return 'endpoint';
  },
});
