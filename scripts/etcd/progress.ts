const QUIET_MS = 2_000;
const REPEAT_MS = 10_000;

/** Says on stderr what takes longer than 2 s, and how long it has been at it. */
export async function withProgress<T>(what: string, work: Promise<T>): Promise<T> {
  const start = performance.now();
  const say = (): void => {
    process.stderr.write(`etcd: ${what} … ${Math.round((performance.now() - start) / 1000)} s\n`);
  };
  let repeat: NodeJS.Timeout | undefined;
  const first = setTimeout(() => {
    say();
    repeat = setInterval(say, REPEAT_MS);
  }, QUIET_MS);
  try {
    return await work;
  } finally {
    clearTimeout(first);
    clearInterval(repeat);
  }
}
