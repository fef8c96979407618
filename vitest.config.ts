import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** What carries calls over whatever transport there is. The other tests know none, or name theirs. */
const CARRIES_CALLS = [
  ...[
    'auth',
    'canary',
    'channel',
    'cluster',
    'concurrency',
    'discovery',
    'faults',
    'kv',
    'lease',
    'maintenance',
    'matrix',
    'mirror',
  ],
  ...['node', 'transport', 'txn', 'watch'],
].map((folder) => `test/${folder}/**/*.test.ts`);

/** What needs neither frames of HTTP/2 nor a proxy that knows them. */
const OVER_THE_GATEWAY = [
  ...['discovery/*', 'kv/{kv,scan}', 'mirror/*', 'txn/*'],
  'concurrency/{election,etcdctl,holder-lost,mutex,reentrant-mutex,with-lock}',
];

/** `ETCDWIRE_TRANSPORT=http2|grpc-js|gateway` runs the tests over that one alone. */
const only = process.env.ETCDWIRE_TRANSPORT;

const shared = {
  // Bounds for hangs, nothing else: no test asserts how long something took.
  testTimeout: 60_000,
  hookTimeout: 60_000,
  expect: { poll: { timeout: 10_000 } },
};

function defaultTransportIs(path: string): { readonly find: RegExp; readonly replacement: string } {
  return { find: /^.*\/default-transport\.js$/, replacement: fileURLToPath(new URL(path, import.meta.url)) };
}

export default defineConfig({
  test: {
    globalSetup: ['test/support/global-setup.ts'],
    // Two cores carry the tests and their servers.
    maxWorkers: 2,
    projects: [
      { test: { ...shared, name: 'http2', provide: { transport: 'http2' }, include: ['test/**/*.test.ts'] } },
      {
        // The same tests, where nothing but the default transport is another.
        resolve: { alias: [defaultTransportIs('test/support/grpc-js-by-default.ts')] },
        test: {
          ...shared,
          name: 'grpc-js',
          provide: { transport: 'grpc-js' },
          include: [...CARRIES_CALLS, 'test/{bad-input,namespace,raw,services}.test.ts'],
          exclude: ['test/transport/http2/**', 'test/transport/prox*.test.ts', 'test/transport/node-http2.test.ts'],
        },
      },
      {
        resolve: { alias: [defaultTransportIs('test/support/gateway-by-default.ts')] },
        test: {
          ...shared,
          name: 'gateway',
          provide: { transport: 'gateway' },
          include: OVER_THE_GATEWAY.map((path) => `test/${path}.test.ts`),
        },
      },
    ].filter(({ test: { name } }) => only === undefined || only === name),
  },
});
