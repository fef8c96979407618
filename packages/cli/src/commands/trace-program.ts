import type { Command } from 'commander';
import { monotonicMs } from '../../../../src/internal.js';
import { programOf } from '../arguments.js';
import { runProgram } from '../child.js';
import { contextOf } from '../context.js';
import { ExitCode, wrongArguments } from '../exit-code.js';
import type { Io } from '../io.js';
import { startProxies } from '../proxy/session.js';
import { lineWriter, Tap } from '../proxy/tap.js';
import { Lanes } from '../trace/lanes.js';
import { LivePage } from '../trace/live-page.js';
import { tracePage } from '../trace/page.js';
import { checkPrivateFile, JsonLines, writePrivateFile } from '../trace/private-files.js';
import { Recording } from '../trace/recording.js';
import { shownCommand } from './shell-words.js';

/** The flags of `trace`. */
export interface TraceFlags {
  readonly record?: string;
  readonly out?: string;
  readonly html?: string;
  readonly serve?: true;
  readonly beside?: string;
}

/** In the arguments of the program, the URLs of the proxies take the place of this text. */
const PLACEHOLDER = '{endpoints}';

/**
 * Runs a program whose etcd client connects through a proxy, and shows its traffic. The program finds the proxy in
 * `ETCDCTL_ENDPOINTS`, which etcdctl and `fromEnv` read, or in its arguments. Resolves with the exit code of the
 * program.
 */
export async function traceProgram(
  args: readonly string[],
  io: Io,
  { record, out, html, serve, beside }: TraceFlags,
  command: Command,
  version: string,
): Promise<ExitCode> {
  if (beside !== undefined)
    throw wrongArguments('--beside: got a program to trace; allowed: an etcdwire command to trace');
  const endpointsFlag = programOf(command).getOptionValueSource('endpoints');
  // The requests of the program carry its own token, so the proxy does not log in.
  programOf(command).setOptionValue('user', undefined);
  const context = contextOf(io, command);
  // Opens all files first, so that the program does not run if a file cannot be written.
  const lines = out === undefined ? undefined : new JsonLines(out, '--out');
  if (html !== undefined) await checkPrivateFile(html, '--html');
  const hasPage = html !== undefined || serve === true;
  const title = shownCommand(args);
  const note = (text: string): void => void io.stderr.write(`etcdwire: ${text}\n`);
  const lanes = new Lanes();
  const recording = new Recording(title, { lanes, isProgram: true, keepsAll: html !== undefined });
  const isPrinted = !hasPage && lines === undefined && record === undefined;
  const printed = isPrinted
    ? lineWriter(lanes, false, monotonicMs(), (text) => void io.stderr.write(`${text}\n`))
    : undefined;
  const shown = [lines, hasPage ? recording : undefined, printed];
  const tap = new Tap({ filter: {}, record, lanes, shown, program: `etcdwire ${version}` });
  const session = await startProxies(context, undefined, {}, { traffic: tap.traffic, onProblem: note });
  const live = serve ? await LivePage.start([recording]) : undefined;
  /** Ends the proxies before the files to which they write. */
  const close = async (): Promise<void> => {
    await session.stop();
    tap.capture?.close();
    lines?.close();
  };
  try {
    if (live !== undefined) note(`the trace is at ${live.url}`);
    const urls = session.urls.join(',');
    const environment = {
      ETCDCTL_ENDPOINTS: urls,
      // etcdctl warns of this variable even if it is empty.
      ...(process.env.ETCDCTL_DISCOVERY_SRV === undefined ? {} : { ETCDCTL_DISCOVERY_SRV: '' }),
      ...(session.caFile === undefined ? {} : { ETCDCTL_CACERT: session.caFile }),
    };
    const exitCode = await runProgram(
      args.map((arg) => arg.replaceAll(PLACEHOLDER, urls)),
      'inherit',
      environment,
    );
    recording.end(exitCode);
    await close();
    if (tap.connections === 0) {
      const given = endpointsFlag === 'cli' ? '--endpoints' : 'its endpoints';
      note(
        `${title} has not connected to the proxy; give it ${given} from ETCDCTL_ENDPOINTS, or write ${PLACEHOLDER} in its arguments`,
      );
    }
    if (tap.undecoded > 0) note(tap.summary);
    if (html !== undefined) {
      await writePrivateFile(html, '--html', tracePage([recording.trace]));
      note(`the trace is in ${html}`);
    }
    await live?.untilOpened(io);
    if (record !== undefined) note(`the recording is in ${record}; show it with: etcdwire show ${record}`);
    const problem = lines?.problem ?? tap.capture?.problem;
    if (problem === undefined) return exitCode;
    note(`the trace is incomplete: ${problem.message}`);
    return exitCode === ExitCode.OK ? ExitCode.CANNOT_WRITE : exitCode;
  } finally {
    await close();
    await live?.stop();
  }
}
