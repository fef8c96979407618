import type { Command } from 'commander';
import { monotonicMs, orAborted } from '../../../../src/internal.js';
import { programOf } from '../arguments.js';
import { contextOf } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import type { Io } from '../io.js';
import { FAULT_KINDS, FaultRules, parseFault } from '../proxy/fault-rules.js';
import { type FilterFlags, filterOptions } from '../proxy/frame-filter.js';
import { type ListenFlags, startProxies } from '../proxy/session.js';
import { framePrinter, Tap } from '../proxy/tap.js';
import { Lanes } from '../trace/lanes.js';
import { LivePage } from '../trace/live-page.js';
import { Recording } from '../trace/recording.js';

interface ProxyFlags extends FilterFlags, ListenFlags {
  readonly listen?: string;
  readonly serve?: true;
  readonly record?: string;
  readonly frames?: true;
  readonly quiet?: true;
  readonly fault: readonly string[];
}

export function addProxyCommand(program: Command, io: Io, version: string): void {
  const command = program
    .command('proxy')
    .option(
      '--listen <urls>',
      'URL for clients, or one for each member, separated by commas; default: free ports of 127.0.0.1',
    )
    .option(
      '--listen-cert <file>',
      'certificate of the proxy for https, PEM; default: one that it makes, valid for a day',
    )
    .option('--listen-key <file>', 'private key of --listen-cert, PEM')
    .option('--listen-cacert <file>', 'require certificates of clients that these authorities sign, PEM')
    .option(
      '--allow-host <names>',
      'names of this host that requests of HTTP/1.1 may contain, separated by commas; default: the names in --listen and in the certificate, localhost, and IP addresses',
    )
    .option(
      '--allow-upgrades',
      'let connections change to another protocol, such as WebSocket, which the proxy cannot show and to which it applies no faults',
    )
    .option('--serve', 'show the traffic in a browser, at the URL that is printed')
    .option('--record <file>', 'write all traffic to this file in the format pcapng, for etcdwire show and Wireshark')
    .option('--frames', 'print every HTTP/2 frame, not only messages and failures')
    .option('--quiet', 'print no traffic')
    .option(
      '--fault <fault>',
      `cause a fault; repeatable; KIND[=DURATION] [rpc=NAMES] [prefix=KEYS] [times=COUNT]; kinds: ${FAULT_KINDS.join(', ')}`,
      (value: string, all: readonly string[]) => [...all, value],
      [],
    )
    .description('forward the traffic of any etcd clients to the cluster, and show it')
    .action((flags: ProxyFlags, self: Command) => proxy(flags, io, self, `etcdwire ${version}`));
  for (const option of filterOptions()) command.addOption(option);
}

async function proxy(flags: ProxyFlags, io: Io, command: Command, program: string): Promise<void> {
  // The requests of the clients carry their own tokens, so the proxy does not log in.
  programOf(command).setOptionValue('user', undefined);
  const context = contextOf(io, command);
  const rules = new FaultRules(flags.fault.map((text) => parseFault(text, '--fault')));
  const startMs = monotonicMs();
  const lanes = new Lanes();
  const recording = flags.serve ? new Recording('etcdwire proxy', { lanes }) : undefined;
  const printed = flags.quiet ? undefined : framePrinter(context.out, lanes, flags.frames === true, startMs);
  const tap = new Tap({ filter: flags, record: flags.record, lanes, shown: [recording, printed], program });
  const note = (text: string): void => void io.stderr.write(`etcdwire: ${text}\n`);
  const sinks = { rules, traffic: tap.traffic, onProblem: note };
  const session = await startProxies(context, flags.listen?.split(','), flags, sinks);
  let live: LivePage | undefined;
  try {
    if (recording !== undefined) {
      live = await LivePage.start([recording], rules);
      note(`the traffic is at ${live.url}`);
    }
    for (const fault of rules.all) note(`fault: ${fault.text}`);
    note(`clients connect with: export ETCDCTL_ENDPOINTS=${session.urls.join(',')}`);
    if (session.caFile !== undefined) note(`clients trust the proxy with: export ETCDCTL_CACERT=${session.caFile}`);
    await orAborted(new Promise(() => {}), io.interrupted).catch(() => {});
  } finally {
    await session.stop();
    recording?.end(undefined);
    await live?.stop();
    tap.capture?.close();
  }
  note(tap.summary);
  const { problem } = tap.capture ?? {};
  if (problem !== undefined)
    throw new CliError(ExitCode.CANNOT_WRITE, `the recording is incomplete: ${problem.message}`);
  if (flags.record !== undefined)
    note(`the recording is in ${flags.record}; show it with: etcdwire show ${flags.record}`);
}
