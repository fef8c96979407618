import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { LongTests } from './test/support/long-tests.js';
import { ISOLATED_SUITES, OTHER_SUITES } from './test/support/suites.js';

// `npm test` runs the suite `http2` once, over the default transport. `npm run test:all` selects the mode `all`. In this
// mode, all suites run, the tests listed below also run over the other transports, and tests use more generated inputs
// and more versions of etcd.

/**
 * The files of tests that make calls over the default transport. They also run in the project `grpc-js`, which replaces
 * that transport. All other tests use no transport, or choose their transport themselves.
 */
const OVER_ANY_TRANSPORT = [
  ...['canary', 'client/{auth,cluster,kv,lease,maintenance,services,txn,watch}', 'faults', 'locks', 'matrix', 'rpc'],
  ...['wire', 'extras/{ranges,writes}'],
].map((folder) => `test/${folder}/**/*.test.ts`);

/**
 * The paths of tests that also run over the JSON gateway, because they need neither HTTP/2 frames nor a proxy that
 * understands HTTP/2.
 */
const OVER_THE_GATEWAY = [
  ...['client/kv/{kv,scan}', 'client/txn/*', 'extras/keys/*', 'extras/ranges/*', 'extras/recipes/{service,view}'],
  'locks/{election,etcdctl,holder-lost,mutex,reentrant-mutex,with-lock}',
];

/** The tests that also run on a `MemoryEtcd` at a port, because they need neither a cluster nor a process of etcd. */
const OVER_MEMORY = [
  ...['client/{auth,cluster,kv,lease,maintenance,txn,watch}/*', 'client/{namespace,raw,keyspace}'],
  ...[
    'client/services/services',
    'packages/cli/test/{admin,call,copy,etcdctl-*,history,keys,lock,mirror*,shards}',
    'interop/*',
    'locks/*',
    'extras/{keys,ranges,recipes,writes}/*',
  ],
  'extras/transports/gateway/{bounds,gateway,guard-pool,http,repeated-writes,unanswered-watch}',
];

/**
 * The test files that take longest. They start first, so that no long file is left at the end. Files that mostly wait
 * alternate with files that need much CPU time.
 */
const LONGEST_FIRST = [
  ...[
    'testing/memory/peers',
    'packages/learn/test/playground-page',
    'packages/learn/test/site',
    'packages/cli/test/etcdctl',
    'faults/watches',
    'packages/cli/test/replay',
    'wire/proxy-settings',
    'faults/leases',
    'wire/proxies',
    'faults/tokens',
  ],
  ...[
    'extras/transports/gateway/resending-hosts',
    'faults/crowds',
    'client/auth/tokens',
    'client/options',
    'packages/cli/test/stopped',
    'client/lease/lease-deadline',
  ],
  ...[
    'faults/holders',
    'package/package',
    'faults/silence',
    'testing/etcd-cluster',
    'extras/transports/gateway/repeated-writes',
    'client/lease/lease',
  ],
  ...['locks/exclusive', 'wire/tls', 'faults/members', 'wire/http2/silent-connection', 'packages/cli/test/lock'],
  ...['matrix/matrix', 'locks/causes', 'faults/connections', 'extras/node/save-snapshot', 'docs/readme'],
  ...['docs/examples', 'fuzz/http2-peer', 'wire/tls-client-certificates', 'wire/http2/floods', 'locks/session'],
];

function pathsOf(patterns: readonly string[]): string[] {
  return patterns.map((pattern) => `${pattern.startsWith('packages/') ? '' : 'test/'}${pattern}.test.ts`);
}

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const longest = pathsOf(LONGEST_FIRST);
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const rank = longest.findIndex((path) => moduleId.endsWith(`/${path}`));
      return rank === -1 ? longest.length : rank;
    };
    return (await super.sort(files)).toSorted((a, b) => rankOf(a) - rankOf(b));
  }
}

/** The only transport over which tests run, such as http2, grpc-js or gateway. If undefined, they run over each. */
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
    // The limits only end tests that hang: on an idle machine, a test takes less than a fifth of them. `LongTests` names
    // a test that hangs much sooner.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 30_000 } },
    // A worker loads the modules of `src` once, and not for each file. This saves a third of the CPU time.
    isolate: false,
  };
  const provided = { thorough: mode === 'all', server: 'etcd' };
  return {
    test: {
      globalSetup: ['test/support/global-setup.ts'],
      reporters: ['default', ...(process.env.GITHUB_ACTIONS === 'true' ? ['github-actions'] : []), new LongTests()],
      // More workers than cores, because most tests wait for timers and servers.
      // `npm run test:all` also runs programs and simulations, which need the cores.
      maxWorkers: Math.min(12, Math.ceil((mode === 'all' ? 2.5 : 4) * availableParallelism())),
      sequence: { sequencer: LongestFirst },
      projects: [
        {
          test: {
            ...shared,
            name: 'http2',
            provide: { ...provided, transport: 'http2' },
            include: ['test/**/*.test.ts'],
            exclude: Object.values(OTHER_SUITES).flatMap(pathsOf),
          },
        },
        ...Object.entries(OTHER_SUITES).map(([name, patterns]) => ({
          test: {
            ...{ ...shared, name, provide: { ...provided, transport: 'http2' }, include: pathsOf(patterns) },
            isolate: ISOLATED_SUITES.includes(name),
          },
        })),
        {
          resolve: withOtherTransport,
          test: {
            ...shared,
            name: 'grpc-js',
            setupFiles: ['test/support/choose-transport.ts'],
            provide: { ...provided, transport: 'grpc-js' },
            include: [
              ...OVER_ANY_TRANSPORT,
              'test/client/{bad-input,namespace,raw}.test.ts',
              'test/extras/observe/retry-policy.test.ts',
              'test/extras/node/save-snapshot.test.ts',
            ],
            exclude: ['test/wire/{http2,protobuf}/**', 'test/wire/prox*.test.ts', 'test/wire/node-http2.test.ts'],
          },
        },
        {
          test: {
            ...shared,
            name: 'memory',
            globalSetup: ['test/support/memory-setup.ts'],
            setupFiles: ['test/support/memory-exceptions.ts'],
            provide: { ...provided, transport: 'http2', server: 'memory' },
            include: pathsOf(OVER_MEMORY),
          },
        },
        {
          resolve: withOtherTransport,
          test: {
            ...shared,
            name: 'memory-gateway',
            globalSetup: ['test/support/memory-setup.ts'],
            setupFiles: ['test/support/memory-exceptions.ts', 'test/support/choose-transport.ts'],
            provide: { ...provided, transport: 'gateway', server: 'memory' },
            include: pathsOf(OVER_THE_GATEWAY),
          },
        },
        {
          resolve: withOtherTransport,
          test: {
            ...shared,
            name: 'gateway',
            setupFiles: ['test/support/choose-transport.ts'],
            provide: { ...provided, transport: 'gateway' },
            include: pathsOf(OVER_THE_GATEWAY),
          },
        },
      ].filter(({ test: { provide } }) => only === undefined || only === provide.transport),
    },
  };
});
