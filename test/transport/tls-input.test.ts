import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { Client } from '../../src/index.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { Authority } from '../support/tls/authority.js';

// What is no TLS option is refused where it is given, and not shown.

const authority = await Authority.create();
const [ca, { cert, key }] = [authority.cert, await authority.issue()];
const [utf8, line] = [(text: string) => new TextEncoder().encode(text), /(\n.{64}\n).{64}\n/];

const PEM = '; allowed: PEM with -----BEGIN';
const FOR_CA = `${PEM} CERTIFICATE-----`;
const FOR_KEY = `${PEM} PRIVATE KEY-----`;
const FOR_NAME = '; allowed: a host name or an IP address, no port';

const inputs: [string, unknown, string][] = [
  ['text', ca, 'tls: got a string; allowed: options, or a function that gives them'],
  ['nothing', null, 'tls: got null;'],
  ['a promise of options', Promise.resolve({ ca }), 'tls: got an object (Promise);'],
  ['a list of authorities', { ca: [ca] }, `tls.ca: got an object (Array)${FOR_CA}`],
  ['an authority that is a number', { ca: 5 }, `tls.ca: got a number${FOR_CA}`],
  ['an authority that is no text', { ca: '' }, `tls.ca: got text without it${FOR_CA}`],
  ['no bytes for an authority', { ca: new Uint8Array() }, `tls.ca: got text without it${FOR_CA}`],
  ['the path of an authority', { ca: '/etc/etcd/ca.pem' }, `tls.ca: got text without it${FOR_CA}`],
  ['an authority that is cut off', { ca: ca.slice(0, -40) }, `tls.ca: got PEM that is damaged${FOR_CA}`],
  ['an authority with a line missing', { ca: ca.replace(line, '$1') }, 'tls.ca: got PEM that is damaged'],
  ['an authority with a wrong character', { ca: ca.replace(line, '$1*') }, 'tls.ca: got PEM that is damaged'],
  ['one good authority and one bad', { ca: `${ca}\n${ca.slice(0, -40)}` }, 'tls.ca: got PEM that is damaged'],
  ['the bytes of a certificate cut off', { cert: utf8(cert.slice(0, 300)), key }, 'tls.cert: got PEM that is damaged'],
  ['a certificate without a key', { cert }, 'tls.key: got none; allowed: tls.cert and tls.key, or neither'],
  ['a key without a certificate', { key }, 'tls.cert: got none; allowed: tls.cert and tls.key, or neither'],
  ['a certificate and a key, exchanged', { cert: key, key: cert }, 'tls.cert: got text without it'],
  ['a key that is cut off', { cert, key: key.slice(0, 120) }, `tls.key: got PEM that is damaged${FOR_KEY}`],
  ['a key that is a number', { cert, key: 5 }, `tls.key: got a number${FOR_KEY}`],
  [
    'an encrypted key',
    { cert, key: key.replaceAll('PRIVATE', 'ENCRYPTED PRIVATE') },
    `tls.key: got an encrypted key${FOR_KEY}`,
  ],
  [
    'a key encrypted as OpenSSL did',
    { cert, key: key.replace('\n', '\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n') },
    'tls.key: got an encrypted key',
  ],
  ['a name that is a number', { serverName: 5 }, `tls.serverName: got a number${FOR_NAME}`],
  ['a name that is empty', { serverName: '' }, `tls.serverName: got an empty string${FOR_NAME}`],
  ['a name with a port', { serverName: 'etcd.example:2379' }, 'tls.serverName: got a string'],
  ['a name with a path', { serverName: 'etcd.example/x' }, 'tls.serverName: got a string'],
  ['a name with a space', { serverName: 'etcd example' }, 'tls.serverName: got a string'],
  ['a key for a name', { serverName: key }, 'tls.serverName: got a string'],
];

test.each(inputs)('%s is refused when the client is made, and not shown', async (_what, tls, message) => {
  const error = await errorOf(() => new Client({ endpoints: ['https://127.0.0.1:1'], tls: tls as never }));
  expect(error).toMatchObject({ code: 'InvalidArgument', reason: 'InvalidInput', outcome: 'not-sent' });
  expect(error.message).toContain(message);
  for (const material of [ca, cert, key]) expect(inspect(error, { depth: 9 })).not.toContain(material.slice(60, 80));
});

test.each<[string, object]>([
  ['nothing', {}],
  ['bytes', { ca: utf8(ca), cert: utf8(cert), key: utf8(key) }],
  ['authorities without a line break between', { ca: `${ca.trimEnd()}${ca}` }],
  [
    'what tools write around',
    { ca: `Issuer: CN = x\n${ca}\n`, cert: cert.replaceAll('\n', '\r\n'), key: `\n\n${key}` },
  ],
  ['a certificate and a key in one file', { cert: `${key}${cert}`, key: `${cert}${key}` }],
  [
    'a key after its curve',
    { cert, key: `-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n${key}` },
  ],
  ['an address', { serverName: '::1' }],
])('%s is taken', (_, tls) => {
  openClient({ endpoints: ['https://127.0.0.1:1'], tls });
});
