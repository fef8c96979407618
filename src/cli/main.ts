import { constants } from 'node:os';
import { FORWARDED, GUARD_ARGUMENT, runGuard, STOPPING } from './child.js';
import { ExitCode, SIGNALED } from './exit-code.js';
import { run } from './program.js';

if (process.argv[2] === GUARD_ARGUMENT) {
  // A service manager sends its signals to all processes of a service. The guard process must outlive the command.
  for (const signal of [...FORWARDED, ...STOPPING]) process.on(signal, () => {});
  await runGuard(process.stdin);
  process.exit();
}

// As in etcdctl, an empty variable counts as unset. Compose files often set empty variables.
for (const [name, value] of Object.entries(process.env))
  if (name.startsWith('ETCDCTL_') && value === '') delete process.env[name];
const interrupted = new AbortController();
for (const signal of FORWARDED) {
  process.on(signal, () => {
    // A second signal exits without waiting for cleanup, unless a command runs. A running command has a listener of its
    // own for the signal, and decides by itself when it ends.
    const commandRuns = process.listenerCount(signal) > 1;
    if (interrupted.signal.aborted && !commandRuns) process.exit(SIGNALED + constants.signals[signal]);
    interrupted.abort(signal);
  });
}
let cannotWrite = false;
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // The reader has closed the pipe, as `head` does. The program releases what it holds and ends.
  interrupted.abort('SIGPIPE');
  if (error.code === 'EPIPE' || cannotWrite) return;
  cannotWrite = true;
  process.stderr.write(`etcdwire: cannot write to standard output: ${error.message}\n`);
  process.exitCode = ExitCode.CANNOT_WRITE;
});
// Without standard error, the program cannot report anything.
process.stderr.on('error', () => {});
const exitCode = await run(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  interrupted: interrupted.signal,
});
process.exitCode = cannotWrite ? ExitCode.CANNOT_WRITE : exitCode;
// The writer to standard input may still run, and an open input would keep this process alive.
process.stdin.destroy();
