import { spawn } from 'node:child_process';
import type { Command } from 'commander';
import { http2Over, monotonicMs, onAbort, openByteStream, parseEndpoint, textOf } from '../../../../src/internal.js';
import { rawArguments } from '../arguments.js';
import { ExitCode, type SetExitCode, signaledCode, withoutOptionValue, wrongArguments } from '../exit-code.js';
import { mayContainSecrets, tapped, type WireFrame } from '../inspect/index.js';
import type { Io } from '../io.js';
import { lineWriter } from '../proxy/tap.js';
import { toEach } from '../proxy/traffic.js';
import { WireProxy } from '../proxy/wire-proxy.js';
import { Lanes } from '../trace/lanes.js';
import { LivePage } from '../trace/live-page.js';
import { tracePage } from '../trace/page.js';
import { checkPrivateFile, JsonLines, writePrivateFile } from '../trace/private-files.js';
import { observeQueue, type QueueObserver } from '../trace/queue-observer.js';
import { Recording, tracesOf } from '../trace/recording.js';
import { findMethod } from './rpc.js';
import { shownCommand, withoutShellSecrets } from './shell-words.js';
import { type TraceFlags, traceProgram } from './trace-program.js';

/** The values of flags. Each key is the name of a flag. */
export type FlagValues = Readonly<Record<string, unknown>>;
export type Run = (args: readonly string[], io: Io, inherited: FlagValues) => Promise<ExitCode>;

export function addTraceCommand(program: Command, io: Io, setExitCode: SetExitCode, run: Run, version: string): void {
  program
    .command('trace')
    .configureOutput({
      outputError: (text, write) => {
        // commander takes the options of the command to trace for options of `trace`, unless -- precedes the command.
        const all = rawArguments(program);
        const rest = shownCommand(all.slice(all.indexOf('trace') + 1));
        const hint = /unknown option/.test(text) ? `, or give the command after --: etcdwire trace -- ${rest}` : '';
        write(
          `${withoutOptionValue(text)
            .replace(/^error: /, 'etcdwire: ')
            .trimEnd()}${hint}\n`,
        );
      },
    })
    .argument('<command...>', 'after --, such as -- lock NAME -- COMMAND')
    .option('--out <file>', 'write one line of JSON for each frame to this file instead of text to standard error')
    .option('--html <file>', 'write a page with the queue of the lock, all messages, and the meaning of each byte')
    .option('--record <file>', 'with a program: write its traffic to this file in the format pcapng')
    .option('--serve', 'show this page in a browser while the command runs, at the URL that is printed')
    .option(
      '--beside <command>',
      'with --html or --serve: afterwards run this shell command, such as "etcdctl lock NAME true", and show its frames too',
    )
    .description(
      'run an etcdwire command, or any program with an etcd client, and print all its frames and messages, without passwords and tokens',
    )
    .action(async (args: string[], flags: TraceFlags, self: Command) => {
      checkDashes(program, args, flags);
      if (args[0] === 'trace')
        throw wrongArguments('command to trace: got trace; allowed: any other etcdwire command, or a program');
      if (isProgram(program, args[0])) return setExitCode(await traceProgram(args, io, flags, self, version));
      if (flags.record !== undefined)
        throw wrongArguments('--record: got an etcdwire command; allowed: a program, such as etcdctl');
      const given = Object.entries(program.opts()).filter(([name]) => program.getOptionValueSource(name) === 'cli');
      const runTraced = (tracedIo: Io): Promise<ExitCode> => run(args, tracedIo, Object.fromEntries(given));
      setExitCode(await trace(args, io, flags, runTraced));
    });
}

/** Whether `trace` can run a command of this name. */
function isCommand(program: Command, name: string | undefined): boolean {
  return program.commands.some((command) => command.name() === name);
}

/** Whether this is the name of a program, and neither a command of etcdwire nor a flag before the command. */
function isProgram(program: Command, name = '-'): boolean {
  return !name.startsWith('-') && !isCommand(program, name);
}

/**
 * Refuses `trace --html get foo`, which would write the page to the file `get` and run the command `foo`.
 *
 * @throws CliError with the command line that the user probably meant.
 */
function checkDashes(program: Command, args: readonly string[], { html, out }: TraceFlags): void {
  for (const [flag, file] of [
    ['--html', html],
    ['--out', out],
  ] as const)
    if (isCommand(program, file) && !isCommand(program, args[0]))
      throw wrongArguments(
        `${flag}: got "${file}", which is a command; allowed: a file, as in etcdwire trace ${flag} trace.html -- ${shownCommand([file as string, ...args])}`,
      );
}

async function trace(
  args: readonly string[],
  io: Io,
  { out, html, serve, beside }: TraceFlags,
  run: (io: Io) => Promise<ExitCode>,
): Promise<ExitCode> {
  const hasPage = html !== undefined || serve === true;
  if (beside !== undefined && !hasPage)
    throw wrongArguments('--beside: got no --html and no --serve; allowed: --beside with one of them');
  // Opens both files first, so that the command does not run if a file cannot be written.
  const lines = out === undefined ? undefined : new JsonLines(out, '--out');
  if (html !== undefined) await checkPrivateFile(html, '--html');
  const command = shownCommand(['etcdwire', ...withoutSecretRequests(args)]);
  const prize = args.includes('elect') ? 'leadership' : 'lock';
  const recording = new Recording(command, { prize, keepsAll: html !== undefined });
  const recordings: [Recording, ...Recording[]] = [recording];
  const live = serve ? await LivePage.start(recordings) : undefined;
  let isAnnounced = false;
  /** Prints the URL of the live page as soon as the page has content. Does nothing from the second call on. */
  const announce = (): void => {
    if (live === undefined || isAnnounced) return;
    isAnnounced = true;
    io.stderr.write(`etcdwire: the trace is at ${live.url}\n`);
  };
  const printed = lines ?? lineWriter(new Lanes(), true, monotonicMs(), (text) => void io.stderr.write(`${text}\n`));
  const shown = toEach(hasPage ? [recording, lines] : [printed]);
  const onFrame = (frame: WireFrame): void => {
    announce();
    shown.frame(frame);
  };
  const onClosed = (connection: number): void => shown.closed(connection, monotonicMs());
  let stderr = '';
  const readStderr = {
    ...(io.stderr.isTTY === undefined ? {} : { isTTY: io.stderr.isTTY }),
    write: (data: string | Uint8Array): unknown => {
      stderr += typeof data === 'string' ? data : textOf(data);
      return io.stderr.write(data);
    },
  };
  let observe: (() => Promise<QueueObserver>) | undefined;
  try {
    const exitCode = await run({
      ...io,
      stderr: hasPage ? readStderr : io.stderr,
      transport: http2Over(tapped(openByteStream, onFrame, onClosed)),
      onEnterQueue: async (options, name) => {
        if (!hasPage) return;
        observe = () => observeQueue(options, name);
        recording.observer = await observe();
      },
    });
    recording.end(exitCode);
    await recording.observer?.stop();
    recording.problems = problemsOf(args, stderr);
    // A command with wrong arguments did not run, so the file keeps the page of a previous run.
    if (exitCode === ExitCode.USAGE) return exitCode;
    announce();
    const besideCode = beside === undefined ? ExitCode.OK : await runBeside(beside, io, recordings, observe);
    try {
      if (html !== undefined) {
        await writePrivateFile(html, '--html', tracePage(tracesOf(recordings)));
        io.stderr.write(`etcdwire: the trace is in ${html}\n`);
      }
      if (lines?.problem !== undefined) throw lines.problem;
    } catch (error) {
      io.stderr.write(`etcdwire: the trace is incomplete: ${(error as Error).message}\n`);
      // If the command failed too, its exit code is more important than that of the trace.
      return exitCode === ExitCode.OK ? ExitCode.CANNOT_WRITE : exitCode;
    }
    await live?.untilOpened(io);
    return exitCode === ExitCode.OK ? (besideCode as ExitCode) : exitCode;
  } finally {
    lines?.close();
    await live?.stop();
  }
}

/**
 * Runs a shell command whose etcd client connects to the endpoint of the first recording through a recording proxy.
 * Returns 0 if the command has succeeded, 1 if it has failed or was not run, and the code of the signal if a signal has
 * interrupted etcdwire meanwhile.
 */
async function runBeside(
  command: string,
  io: Io,
  recordings: [Recording, ...Recording[]],
  observe: (() => Promise<QueueObserver>) | undefined,
): Promise<number> {
  const [first] = recordings;
  const shown = withoutShellSecrets(command);
  const endpoint = first.frames[0]?.endpoint;
  const problem = io.interrupted.aborted
    ? 'etcdwire was interrupted'
    : endpoint === undefined
      ? 'the traced command has connected to no endpoint'
      : endpoint.startsWith('http:')
        ? undefined
        : `the proxy that records its frames cannot connect to ${endpoint}; allowed: an endpoint with http://`;
  if (endpoint === undefined || problem !== undefined) {
    io.stderr.write(`etcdwire: ${shown} was not run, because ${problem}\n`);
    return ExitCode.FAILED;
  }
  const recording = new Recording(shown, { prize: first.trace.story.prize, keepsAll: true });
  recordings.push(recording);
  // If the observer cannot start, the page shows no queue for this command.
  recording.observer = await observe?.().catch(() => undefined);
  const proxy = await WireProxy.start({
    host: '127.0.0.1',
    port: 0,
    members: [parseEndpoint(endpoint, 'endpoint')],
    traffic: recording,
    onProblem: (problem) => void io.stderr.write(`etcdwire: ${problem}\n`),
  });
  try {
    // The shell has its own process group, so that a signal reaches all its commands.
    const child = spawn('sh', ['-c', command], {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      env: { ...process.env, ETCDCTL_ENDPOINTS: proxy.url },
    });
    // Print everything to standard error, because standard output belongs to the traced command.
    for (const output of [child.stdout, child.stderr]) output.on('data', (data: Uint8Array) => io.stderr.write(data));
    const offInterrupted = onAbort(io.interrupted, () => {
      if (child.pid !== undefined) process.kill(-child.pid, io.interrupted.reason as NodeJS.Signals);
    });
    const exitCode = await new Promise<number>((resolve) => {
      child.on('error', () => resolve(ExitCode.CANNOT_RUN));
      child.on('close', (code) => resolve(code ?? ExitCode.FAILED));
    });
    offInterrupted();
    recording.end(exitCode);
    await recording.observer?.stop();
    if (io.interrupted.aborted) return signaledCode(io.interrupted.reason as NodeJS.Signals);
    if (exitCode === 0) return ExitCode.OK;
    io.stderr.write(`etcdwire: ${shown} ended with exit code ${exitCode}\n`);
    return ExitCode.FAILED;
  } finally {
    await proxy.stop();
  }
}

/**
 * Returns what a page may show of standard error: nothing if the request may contain secrets, because an error can
 * contain a part of the request.
 */
function problemsOf(args: readonly string[], stderr: string): string {
  if (holdsSecrets(args)) return '';
  // Remove the question for a password, and the status lines that a terminal would have erased.
  return stderr
    .replace(/^Password of .*\n?/gm, '')
    .split('\r\x1b[K')
    .map((part, index) => (index === 0 ? part : part.replace(/^[^\n]*$/, '')))
    .join('');
}

/** Whether the arguments name an RPC whose request may contain passwords or tokens. */
function holdsSecrets(args: readonly string[]): boolean {
  return args.some((arg) => mayContainSecrets(findMethod(arg)?.request.typeName ?? ''));
}

/** Hides the JSON requests of RPCs whose requests may contain passwords or tokens. */
function withoutSecretRequests(args: readonly string[]): readonly string[] {
  return holdsSecrets(args) ? args.map((arg) => (arg.trimStart().startsWith('{') ? '…' : arg)) : args;
}
