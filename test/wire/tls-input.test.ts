import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import { Client } from '../../src/index.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';

// `new Client` refuses invalid TLS options, and the error does not show their values.

const authority = await Authority.create();
const [ca, { cert, key }] = [authority.cert, await authority.issue()];
const [utf8, line] = [(text: string) => new TextEncoder().encode(text), /(\n.{64}\n).{64}\n/];

const PEM = '; allowed: PEM with -----BEGIN';
const FOR_CA = `${PEM} CERTIFICATE-----`;
const FOR_KEY = `${PEM} PRIVATE KEY-----`;
const FOR_NAME = '; allowed: a host name or an IP address without a port';

const inputs: [string, unknown, string][] = [
  ['a string', ca, 'tls: got a string; allowed: TLS options, or a function that returns them'],
  ['null', null, 'tls: got null;'],
  ['a promise of options', Promise.resolve({ ca }), 'tls: got an object (Promise);'],
  ['a list of authorities', { ca: [ca] }, `tls.ca: got an object (Array)${FOR_CA}`],
  ['an authority that is a number', { ca: 5 }, `tls.ca: got a number${FOR_CA}`],
  ['an empty authority', { ca: '' }, `tls.ca: got text without a CERTIFICATE block${FOR_CA}`],
  ['an authority of zero bytes', { ca: new Uint8Array() }, `tls.ca: got text without a CERTIFICATE block${FOR_CA}`],
  [
    'the path of an authority file',
    { ca: '/etc/etcd/ca.pem' },
    `tls.ca: got text without a CERTIFICATE block${FOR_CA}`,
  ],
  ['a truncated authority', { ca: ca.slice(0, -40) }, `tls.ca: got damaged PEM${FOR_CA}`],
  ['an authority with a line missing', { ca: ca.replace(line, '$1') }, 'tls.ca: got damaged PEM'],
  ['an authority with a wrong character', { ca: ca.replace(line, '$1*') }, 'tls.ca: got damaged PEM'],
  ['a valid authority and a truncated authority', { ca: `${ca}\n${ca.slice(0, -40)}` }, 'tls.ca: got damaged PEM'],
  ['a truncated certificate', { cert: utf8(cert.slice(0, 300)), key }, 'tls.cert: got damaged PEM'],
  ['a certificate without a key', { cert }, 'tls.key: missing; give both tls.cert and tls.key, or neither'],
  ['a key without a certificate', { key }, 'tls.cert: missing; give both tls.cert and tls.key, or neither'],
  ['a swapped certificate and key', { cert: key, key: cert }, 'tls.cert: got text without a CERTIFICATE block'],
  ['a truncated key', { cert, key: key.slice(0, 120) }, `tls.key: got damaged PEM${FOR_KEY}`],
  ['a key that is a number', { cert, key: 5 }, `tls.key: got a number${FOR_KEY}`],
  [
    'an encrypted key',
    { cert, key: key.replaceAll('PRIVATE', 'ENCRYPTED PRIVATE') },
    `tls.key: got an encrypted key, which the client cannot decrypt${FOR_KEY}`,
  ],
  [
    'a key encrypted in the old format of OpenSSL',
    { cert, key: key.replace('\n', '\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n') },
    'tls.key: got an encrypted key',
  ],
  ['a server name that is a number', { serverName: 5 }, `tls.serverName: got a number${FOR_NAME}`],
  ['an empty server name', { serverName: '' }, `tls.serverName: got an empty string${FOR_NAME}`],
  [
    'a server name with a port',
    { serverName: 'etcd.example:2379' },
    `tls.serverName: got "etcd.example:2379"${FOR_NAME}`,
  ],
  ['a server name with a path', { serverName: 'etcd.example/x' }, `tls.serverName: got "etcd.example/x"${FOR_NAME}`],
  ['a server name with a space', { serverName: 'etcd example' }, `tls.serverName: got "etcd example"${FOR_NAME}`],
  ['a key as the server name', { serverName: key }, 'tls.serverName: got text that cannot be a host name'],
];

test.each(inputs)(
  '`new Client` refuses %s in the option `tls`, and the error shows no key or certificate',
  async (_what, tls, message) => {
    const error = await errorOf(() => new Client({ endpoints: ['https://127.0.0.1:1'], tls: tls as never }));
    expect(error).toMatchObject({ code: 'InvalidArgument', reason: 'InvalidInput', outcome: 'not-sent' });
    expect(error.message).toContain(message);
    for (const material of [ca, cert, key]) expect(inspect(error, { depth: 9 })).not.toContain(material.slice(60, 80));
  },
);

test.each<[string, object]>([
  ['no properties', {}],
  ['PEM as bytes', { ca: utf8(ca), cert: utf8(cert), key: utf8(key) }],
  ['authorities without a line break between them', { ca: `${ca.trimEnd()}${ca}` }],
  ['text around the PEM', { ca: `Issuer: CN = x\n${ca}\n`, cert: cert.replaceAll('\n', '\r\n'), key: `\n\n${key}` }],
  ['a certificate and a key in one file', { cert: `${key}${cert}`, key: `${cert}${key}` }],
  [
    'a key that follows its curve parameters',
    { cert, key: `-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n${key}` },
  ],
  ['an IP address as the server name', { serverName: '::1' }],
])('`new Client` accepts the option `tls` with %s', (_, tls) => {
  openClient({ endpoints: ['https://127.0.0.1:1'], tls });
});
