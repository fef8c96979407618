import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import { type CapturedConnection, CaptureError, CaptureReader } from '../../inspect/capture-reader.js';
import { ConnectionDecoder } from '../../inspect/connection-decoder.js';
import type { WireFrame } from '../../inspect/frames.js';
import { orAborted } from '../../runtime/signals.js';
import { contextOf } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import type { Io } from '../io.js';
import { type FilterFlags, FrameFilter, filterOptions } from '../proxy/frame-filter.js';
import { framePrinter } from '../proxy/tap.js';
import { addressText } from '../proxy/wire-proxy.js';
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
  const leftOut = await read(file, lanes, (frame) => {
    lanes.follow(frame);
    lastMs = frame.atMs;
    filter.frame(frame);
  });
  const note = (text: string): void => void io.stderr.write(`etcdwire: ${text}\n`);
  if (leftOut > 0) note(`connections left out because packets are missing: ${leftOut}`);
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

/**
 * Reads a capture. Returns the number of connections that the reader has left out.
 *
 * @throws CliError if the file cannot be read, or is not a capture.
 */
async function read(file: string, lanes: Lanes, onFrame: (frame: WireFrame) => void): Promise<number> {
  let connections = 0;
  const reader = new CaptureReader((captured) => {
    connections += 1;
    const connection = connections;
    lanes.add(connection, { address: addressText(captured.client), certificateName: certificateIn(captured) });
    const endpoint = / to (\S+?)(?:,|$)/.exec(captured.comment)?.[1] ?? `http://${addressText(captured.server)}`;
    let atMs = captured.atMs;
    const decoder = new ConnectionDecoder((direction, frame) =>
      onFrame({ atMs, connection, endpoint, direction, ...frame }),
    );
    return {
      bytes: (direction, bytes, time) => {
        atMs = time;
        decoder.push(direction, bytes);
      },
      closed: () => {},
    };
  });
  try {
    for await (const bytes of createReadStream(file)) reader.push(bytes as Uint8Array);
    reader.end();
  } catch (error) {
    if (error instanceof CaptureError) throw new CliError(ExitCode.DATA, `${file}: ${error.message}`);
    throw new CliError(ExitCode.USAGE, `cannot read ${file}: ${(error as Error).message}`);
  }
  return reader.leftOut;
}

function certificateIn({ comment }: CapturedConnection): string | undefined {
  return /, client certificate (.*)$/s.exec(comment)?.[1];
}
