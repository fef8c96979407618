import { monotonicMs } from '../../../src/internal.js';
import { FORWARDED, GUARD_ARGUMENT, runGuard, STOPPING } from './child.js';
import { ExitCode, signaledCode } from './exit-code.js';
import { run } from './program.js';

/**
 * Signals within this time in milliseconds are one request to exit. When a terminal is closed, both the shell and the
 * system send SIGHUP. The program `timeout` sends SIGTERM to its command, and then to the command's process group. If
 * this program exited on the second signal, its lock would stay locked until the TTL ends.
 */
const REPEATED_MS = 500;
if (process.argv[2] === GUARD_ARGUMENT) void guard();
else void main();

/**
 * Runs the guard process, which ends the command of `etcdwire lock` or `etcdwire elect` if the main process cannot. A
 * service manager may send a signal such as SIGTERM to all processes of a service. The guard process ignores such
 * signals, because it must outlive the command.
 */
async function guard(): Promise<void> {
  for (const signal of [...FORWARDED, ...STOPPING]) process.on(signal, () => {});
  await runGuard(process.stdin);
  process.exit();
}

async function main(): Promise<void> {
  // If the event loop had nothing left to do before the command ends, this process would exit with 0.
  process.exitCode = ExitCode.FAILED;
  /** When a signal first asked this program to exit. Signals that arrive while a command runs do not count. */
  let askedMs = Number.POSITIVE_INFINITY;
  const interrupted = new AbortController();
  for (const signal of FORWARDED) {
    process.on(signal, () => {
      // While a command runs, a second listener, which `runChild` adds, forwards each signal to the command, and the
      // command decides when to exit.
      if (process.listenerCount(signal) === 1) {
        // On a later signal, exit without waiting for cleanup.
        if (monotonicMs() - askedMs >= REPEATED_MS) process.exit(signaledCode(signal));
        askedMs = Math.min(askedMs, monotonicMs());
      }
      interrupted.abort(signal);
    });
  }
  let cannotWrite = false;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // After any write error, the program releases its locks and leases and exits. The error EPIPE is not a problem to
    // report: the process that reads the output, for example `head`, has closed the pipe.
    interrupted.abort('SIGPIPE');
    if (error.code === 'EPIPE' || cannotWrite) return;
    cannotWrite = true;
    process.stderr.write(`etcdwire: cannot write to standard output: ${error.message}\n`);
    process.exitCode = ExitCode.CANNOT_WRITE;
  });
  // Ignores write errors of standard error, because the program has no other place to report them.
  process.stderr.on('error', () => {});
  let usesStdin = false;
  const exitCode = await run(process.argv.slice(2), {
    get stdin() {
      usesStdin = true;
      return process.stdin;
    },
    stdout: process.stdout,
    stderr: process.stderr,
    interrupted: interrupted.signal,
  });
  process.exitCode = cannotWrite ? ExitCode.CANNOT_WRITE : exitCode;
  // Closes standard input. Otherwise, this process would stay alive until the process that writes to the input ends.
  if (usesStdin) process.stdin.destroy();
}
