import { run } from './program.js';

const interrupted = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    // Who asks twice does not want to wait for what is being given back.
    if (interrupted.signal.aborted) process.exit(128);
    interrupted.abort(signal);
  });
}
// As `head` does when it has enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
process.exitCode = await run(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  interrupted: interrupted.signal,
});
// Whoever was to write to it may not have ended.
process.stdin.destroy();
