import { constants } from 'node:os';
import { FORWARDED, GUARD_ARGUMENT, runGuard, STOPPING } from './child.js';
import { ExitCode, SIGNALED } from './exit-code.js';
import { run } from './program.js';

if (process.argv[2] === GUARD_ARGUMENT) {
  // This process is the guard process, which ends the command of `etcdwire lock` if the main process cannot. It ignores
  // these signals, because a service manager sends them to all processes of a service, but the guard process must
  // outlive the command.
  for (const signal of [...FORWARDED, ...STOPPING]) process.on(signal, () => {});
  await runGuard(process.stdin);
  process.exit();
}

// As in etcdctl, an empty environment variable counts as unset. Docker Compose files often set empty variables.
for (const [name, value] of Object.entries(process.env))
  if (name.startsWith('ETCDCTL_') && value === '') delete process.env[name];
const interrupted = new AbortController();
for (const signal of FORWARDED) {
  process.on(signal, () => {
    // On a second signal, exit without waiting for cleanup, unless a command is running. While a command runs,
    // `runChild` has a second listener, which forwards the signal, and the command decides when to end.
    const commandRuns = process.listenerCount(signal) > 1;
    if (interrupted.signal.aborted && !commandRuns) process.exit(SIGNALED + constants.signals[signal]);
    interrupted.abort(signal);
  });
}
let cannotWrite = false;
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // If the reader has closed the pipe, as `head` does, the program releases its locks and leases, and ends.
  interrupted.abort('SIGPIPE');
  if (error.code === 'EPIPE' || cannotWrite) return;
  cannotWrite = true;
  process.stderr.write(`etcdwire: cannot write to standard output: ${error.message}\n`);
  process.exitCode = ExitCode.CANNOT_WRITE;
});
// If standard error cannot be written, the program cannot report the problem anywhere.
process.stderr.on('error', () => {});
const exitCode = await run(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  interrupted: interrupted.signal,
});
process.exitCode = cannotWrite ? ExitCode.CANNOT_WRITE : exitCode;
// Closes standard input, because an open input would keep this process alive while its writer runs.
process.stdin.destroy();
