import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // Bounds for hangs, nothing else: no test asserts how long something took.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Two cores carry the tests and their servers.
    maxWorkers: 2,
    reporters: process.env.CI ? ['default'] : ['default'],
  },
});
