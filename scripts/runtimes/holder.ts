import { type Memory, runHolder } from './memory.js';

// A small program with a lock, for runtimes with `process`. See `runHolder`.

const memoryOf = (): Memory => {
  (globalThis as { gc?: () => void }).gc?.();
  const { heapUsed, rss } = process.memoryUsage();
  return { heap: heapUsed, resident: rss };
};
runHolder(process.argv.slice(2), memoryOf, (line) => console.log(line)).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
