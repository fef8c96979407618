import type { Command } from 'commander';
import { orAborted } from '../../../../src/internal.js';
import { captureArgument } from '../arguments.js';
import { contextOf } from '../context.js';
import { wrongArguments } from '../exit-code.js';
import type { Io } from '../io.js';
import { type FilterFlags, FrameFilter, filterOptions } from '../proxy/frame-filter.js';
import { leftOutOf, readCapture } from '../proxy/read-capture.js';
import { framePrinter } from '../proxy/tap.js';
import { type Traffic, toEach } from '../proxy/traffic.js';
import { Lanes } from '../trace/lanes.js';
import { LivePage } from '../trace/live-page.js';
import { tracePage } from '../trace/page.js';
import { writePrivateFile } from '../trace/private-files.js';
import { Recording, tracesOf } from '../trace/recording.js';

interface ShowFlags extends FilterFlags {
  readonly html?: string;
  readonly serve?: true;
  readonly frames?: true;
}

export function addShowCommand(program: Command, io: Io): void {
  const command = program
    .command('show')
    .addArgument(captureArgument())
    .argument('[other]', 'with --html or --serve: a capture to show beside the first one, aligned by its calls')
    .option('--html <file>', 'write a page with all messages, and the meaning of each byte')
    .option('--serve', 'show this page in a browser, at the URL that is printed')
    .option('--frames', 'print every HTTP/2 frame, not only messages and failures')
    .description('print the messages in a recording, without passwords and tokens')
    .action((file: string, other: string | undefined, flags: ShowFlags, self: Command) =>
      show(other === undefined ? [file] : [file, other], flags, io, self),
    );
  for (const option of filterOptions()) command.addOption(option);
}

async function show(files: readonly string[], flags: ShowFlags, io: Io, command: Command): Promise<void> {
  const { out } = contextOf(io, command);
  const hasPage = flags.html !== undefined || flags.serve === true;
  if (files.length > 1 && !hasPage)
    throw wrongArguments('show: got two files, and no --html and no --serve; allowed: two files with one of them');
  const note = (text: string): void => void io.stderr.write(`etcdwire: ${text}\n`);
  const found: Recording[] = [];
  for (const file of files) {
    const recording = await recordingOf(file, flags, note, (lanes, startMs) =>
      hasPage ? undefined : framePrinter(out, lanes, flags.frames === true, startMs),
    );
    if (recording === undefined)
      return note(`${files.length > 1 ? file : 'the recording'} contains no traffic that fits`);
    found.push(recording);
  }
  const recordings = found as [Recording, ...Recording[]];
  if (flags.html !== undefined) {
    await writePrivateFile(flags.html, '--html', tracePage(tracesOf(recordings)));
    note(`the page is in ${flags.html}`);
  }
  if (flags.serve !== true) return;
  const live = await LivePage.start(recordings);
  note(`the page is at ${live.url}; press Ctrl-C to end`);
  await orAborted(new Promise(() => {}), io.interrupted).catch(() => {});
  await live.stop();
}

/**
 * Reads a capture, and passes the frames that fit to what `printer` returns at the first of them, or records them if it
 * returns nothing. Resolves with undefined if no frame fits.
 */
async function recordingOf(
  file: string,
  flags: ShowFlags,
  note: (text: string) => void,
  printer: (lanes: Lanes, startMs: number) => Traffic | undefined,
): Promise<Recording | undefined> {
  const lanes = new Lanes();
  let recording: Recording | undefined;
  let printed: Traffic | undefined;
  let lastMs = 0;
  const filter = new FrameFilter(flags, lanes, {
    frame: (frame) => {
      if (recording === undefined) {
        recording = new Recording(file, { lanes, startMs: frame.atMs });
        printed = printer(lanes, frame.atMs);
      }
      (printed ?? recording).frame(frame);
    },
    closed: (connection, atMs) => {
      recording?.closed(connection, atMs);
      printed?.closed?.(connection, atMs);
    },
  });
  const timed: Traffic = {
    frame: ({ atMs }) => {
      lastMs = atMs;
    },
  };
  const gaps = await readCapture(file, toEach([timed, lanes, filter]));
  for (const text of leftOutOf(gaps)) note(text);
  recording?.end(undefined, lastMs);
  return recording;
}
