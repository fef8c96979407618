import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

// `npm test` runs every test once, over the default transport. `npm run test:all` selects the mode `all`. In this mode,
// the tests listed below also run over the other transports, and tests use more generated inputs and more versions of
// etcd.

/**
 * The files of tests that make calls over the default transport. They also run in the project `grpc-js`, which replaces
 * that transport. All other tests use no transport, or choose their transport themselves.
 */
const OVER_ANY_TRANSPORT = [
  ...['auth', 'canary', 'channel', 'cluster', 'concurrency', 'discovery', 'faults', 'keys', 'kv', 'lease'],
  ...['maintenance', 'matrix', 'mirror', 'recipes', 'transport', 'txn', 'watch'],
].map((folder) => `test/${folder}/**/*.test.ts`);

/**
 * The paths of tests that also run over the JSON gateway, because they need neither HTTP/2 frames nor a proxy that
 * understands HTTP/2.
 */
const OVER_THE_GATEWAY = [
  ...['discovery/*', 'keys/*', 'kv/{kv,scan}', 'mirror/*', 'txn/*'],
  'concurrency/{election,etcdctl,holder-lost,mutex,reentrant-mutex,with-lock}',
];

/** The tests that also run on a `MemoryEtcd` at a port, because they need neither a cluster nor a process of etcd. */
const OVER_MEMORY = [
  ...[
    'auth/*',
    'cli/*',
    'concurrency/*',
    'discovery/*',
    'keys/*',
    'kv/*',
    'lease/*',
    'mirror/*',
    'recipes/*',
    'txn/*',
    'watch/*',
  ],
  ...['maintenance/*', 'cluster/*', 'interop/*', 'client/{namespace,raw,keyspace}', 'services/services'],
  ...['gateway/{bounds,gateway,guard-pool,http,repeated-writes,unanswered-watch}'],
];

/**
 * The test files that take longest. They start first, so that no long file is left at the end. Files that mostly wait
 * alternate with files that need much CPU time.
 */
const LONGEST_FIRST = [
  ...[
    'testing/memory/peers',
    'docs/playground-page',
    'cli/etcdctl',
    'faults/watches',
    'cli/replay',
    'transport/proxy-settings',
    'faults/leases',
    'transport/proxies',
    'faults/tokens',
  ],
  ...[
    'gateway/resending-hosts',
    'faults/crowds',
    'auth/tokens',
    'client/options',
    'cli/stopped',
    'lease/lease-deadline',
  ],
  ...[
    'faults/holders',
    'package/package',
    'faults/silence',
    'testing/etcd-cluster',
    'gateway/repeated-writes',
    'lease/lease',
  ],
  ...['concurrency/exclusive', 'transport/tls', 'faults/members', 'transport/http2/silent-connection', 'cli/lock'],
  ...['matrix/matrix', 'concurrency/causes', 'faults/connections', 'services/save-snapshot', 'docs/readme'],
  ...[
    'docs/examples',
    'fuzz/http2-peer',
    'transport/tls-client-certificates',
    'transport/http2/floods',
    'concurrency/session',
  ],
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const rank = LONGEST_FIRST.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return rank === -1 ? LONGEST_FIRST.length : rank;
    };
    return (await super.sort(files)).toSorted((a, b) => rankOf(a) - rankOf(b));
  }
}

/** The name of the only project to run, such as http2, grpc-js or gateway. If undefined, Vitest can run all projects. */
const only = process.env.ETCDWIRE_TRANSPORT;

/** Module resolution that replaces the default transport with the transport of the project. */
const withOtherTransport = {
  alias: [
    {
      find: /^.*\/default-transport\.js$/,
      replacement: fileURLToPath(new URL('test/support/default-transport.ts', import.meta.url)),
    },
  ],
};

export default defineConfig(({ mode }) => {
  const shared = {
    // The limits only end tests that hang: on an idle machine, a test takes less than a fifth of them.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 30_000 } },
  };
  const provided = { thorough: mode === 'all', server: 'etcd' };
  return {
    test: {
      globalSetup: ['test/support/global-setup.ts'],
      // More workers than cores, because most tests wait for timers and servers.
      maxWorkers: Math.min(8, Math.ceil(2.5 * availableParallelism())),
      sequence: { sequencer: LongestFirst },
      projects: [
        {
          test: {
            ...shared,
            name: 'http2',
            provide: { ...provided, transport: 'http2' },
            include: ['test/**/*.test.ts'],
          },
        },
        {
          resolve: withOtherTransport,
          test: {
            ...shared,
            name: 'grpc-js',
            provide: { ...provided, transport: 'grpc-js' },
            include: [
              ...OVER_ANY_TRANSPORT,
              'test/client/{bad-input,namespace,raw}.test.ts',
              'test/services/*.test.ts',
            ],
            exclude: ['test/transport/http2/**', 'test/transport/prox*.test.ts', 'test/transport/node-http2.test.ts'],
          },
        },
        {
          test: {
            ...shared,
            name: 'memory',
            globalSetup: ['test/support/memory-setup.ts'],
            setupFiles: ['test/support/memory-exceptions.ts'],
            provide: { ...provided, transport: 'http2', server: 'memory' },
            include: OVER_MEMORY.map((path) => `test/${path}.test.ts`),
            // This test compares with etcdctl at two servers of its own.
            exclude: ['test/cli/etcdctl.test.ts'],
          },
        },
        {
          resolve: withOtherTransport,
          test: {
            ...shared,
            name: 'memory-gateway',
            globalSetup: ['test/support/memory-setup.ts'],
            setupFiles: ['test/support/memory-exceptions.ts'],
            provide: { ...provided, transport: 'gateway', server: 'memory' },
            include: OVER_THE_GATEWAY.map((path) => `test/${path}.test.ts`),
          },
        },
        {
          resolve: withOtherTransport,
          test: {
            ...shared,
            name: 'gateway',
            provide: { ...provided, transport: 'gateway' },
            include: OVER_THE_GATEWAY.map((path) => `test/${path}.test.ts`),
          },
        },
      ].filter(({ test: { name } }) => only === undefined || only === name),
    },
  };
});
