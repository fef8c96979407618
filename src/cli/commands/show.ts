import type { Command } from 'commander';
import type { WireFrame } from '../../inspect/frames.js';
import { orAborted } from '../../runtime/signals.js';
import { contextOf } from '../context.js';
import type { Io } from '../io.js';
import { type FilterFlags, FrameFilter, filterOptions } from '../proxy/frame-filter.js';
import { RECORD_WITH_PROXY, readCapture } from '../proxy/read-capture.js';
import { framePrinter } from '../proxy/tap.js';
import { Lanes } from '../trace/lanes.js';
import { LivePage } from '../trace/live-page.js';
import { tracePage } from '../trace/page.js';
import { writePrivateFile } from '../trace/private-files.js';
import { Recording } from '../trace/recording.js';
import type { Trace } from '../trace/trace.js';

interface ShowFlags extends FilterFlags {
  readonly html?: string;
  readonly serve?: true;
  readonly frames?: true;
}

export function addShowCommand(program: Command, io: Io): void {
  const command = program
    .command('show')
    .argument(
      '<file>',
      'a capture without TLS in the format pcapng or pcap, from etcdwire proxy --record, Wireshark or tcpdump',
    )
    .option('--html <file>', 'write a page with all messages, and the meaning of each byte')
    .option('--serve', 'show this page in a browser, at the URL that is printed')
    .option('--frames', 'print every HTTP/2 frame, not only messages and failures')
    .description('print the messages in a recording, without passwords and tokens')
    .action((file: string, flags: ShowFlags, self: Command) => show(file, flags, io, self));
  for (const option of filterOptions()) command.addOption(option);
}

async function show(file: string, flags: ShowFlags, io: Io, command: Command): Promise<void> {
  const { out } = contextOf(io, command);
  const hasPage = flags.html !== undefined || flags.serve === true;
  const lanes = new Lanes();
  let recording: Recording | undefined;
  let print: ((frame: WireFrame) => void) | undefined;
  let lastMs = 0;
  const filter = new FrameFilter(flags, lanes, (frame) => {
    recording ??= new Recording(file, { lanes, startMs: frame.atMs });
    if (hasPage) return recording.add(frame, false);
    print ??= framePrinter(out, lanes, flags.frames === true, frame.atMs);
    print(frame);
  });
  const { leftOut, encrypted } = await readCapture(file, {
    opened: (connection, info) => lanes.add(connection, info),
    frame: (frame) => {
      lanes.follow(frame);
      lastMs = frame.atMs;
      filter.frame(frame);
    },
  });
  const note = (text: string): void => void io.stderr.write(`etcdwire: ${text}\n`);
  if (leftOut > 0) note(`connections left out because packets are missing: ${leftOut}`);
  if (encrypted > 0) note(`connections left out because they use TLS: ${encrypted}; ${RECORD_WITH_PROXY}`);
  if (recording === undefined) return note('the recording contains no traffic that fits');
  const shown = recording;
  shown.end(undefined, lastMs);
  if (flags.html !== undefined) {
    writePrivateFile(flags.html, tracePage([shown.trace]));
    note(`the page is in ${flags.html}`);
  }
  if (flags.serve !== true) return;
  const live = await LivePage.start(
    () => [shown.liveTrace] as [Trace],
    () => shown.version,
  );
  note(`the page is at ${live.url}; press Ctrl-C to end`);
  await orAborted(new Promise(() => {}), io.interrupted).catch(() => {});
  await live.stop();
}
