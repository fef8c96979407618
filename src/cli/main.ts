import { constants } from 'node:os';
import { FORWARDED, STOPPING } from './child.js';
import { ExitCode, SIGNALED } from './exit-code.js';
import { GUARD, guard } from './guard.js';
import { run } from './program.js';

if (process.argv[2] === GUARD) {
  // A manager of services sends its signals to all of a service's processes. The guard lasts as long as there is a command.
  for (const signal of [...FORWARDED, ...STOPPING]) process.on(signal, () => {});
  await guard(process.stdin);
  process.exit();
}

// As etcdctl has it, and as compose files write it: what is empty is not given.
for (const [name, value] of Object.entries(process.env))
  if (name.startsWith('ETCDCTL_') && value === '') delete process.env[name];
const interrupted = new AbortController();
for (const signal of FORWARDED) {
  process.on(signal, () => {
    // Who asks twice does not want to wait for what is being given back. A command under way is told by itself, and is
    // not left alone with what it was started under.
    const commandRuns = process.listenerCount(signal) > 1;
    if (interrupted.signal.aborted && !commandRuns) process.exit(SIGNALED + constants.signals[signal]);
    interrupted.abort(signal);
  });
}
let cannotWrite = false;
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // Whoever read has enough, as `head`: what is held is given back.
  interrupted.abort('SIGPIPE');
  if (error.code === 'EPIPE' || cannotWrite) return;
  cannotWrite = true;
  process.stderr.write(`etcdwire: cannot write to standard output: ${error.message}\n`);
  process.exitCode = ExitCode.CANNOT_WRITE;
});
// Nobody can be told of it.
process.stderr.on('error', () => {});
const exitCode = await run(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  interrupted: interrupted.signal,
});
process.exitCode = cannotWrite ? ExitCode.CANNOT_WRITE : exitCode;
// Whoever was to write to it may not have ended.
process.stdin.destroy();
