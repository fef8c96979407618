// The suites of tests by the name of their project in the Vitest configuration. Each file of tests belongs to exactly
// one of them. The tests of `http2` are those that `npm test` runs: the client, its locks and recipes against one real
// etcd. The other suites take minutes, or need clusters, browsers or many processes.

/**
 * Patterns of paths under `test/` or `packages/`, without the ending. The suite `http2` has all files under `test/` that
 * no other suite has.
 */
export const OTHER_SUITES = {
  cli: [
    ...['packages/cli/test/**/*', 'packages/migrate/test/**/*'],
    ...['canary/{commands,recordings}', 'fuzz/hostile-listeners'],
  ],
  docs: ['docs/**/*', 'package/**/*', 'scripts/**/*', 'packages/learn/test/**/*'],
  faults: [
    ...[
      'faults/**/*',
      'matrix/**/*',
      'interop/**/*',
      'wire/{proxies,proxy-settings}',
      'extras/transports/gateway/resending-hosts',
    ],
    ...['wire/http2/frozen-process', 'extras/recipes/outages'],
  ],
  generators: ['fuzz/!(hostile-listeners)', 'client/re-entrancy', 'client/watch/growth', 'wire/http2/{growth,floods}'],
  testing: ['testing/**/*'],
  simulation: ['simulation/**/*', 'interleavings/**/*'],
} as const satisfies Record<string, readonly string[]>;

/**
 * The suites whose files run in processes of their own. A simulated world replaces the clocks and timers of the whole
 * process, so the timers that earlier tests have left would run in this world.
 */
export const ISOLATED_SUITES: readonly string[] = ['simulation'];

/** The names of all suites. */
export const SUITES = ['http2', ...Object.keys(OTHER_SUITES)];
