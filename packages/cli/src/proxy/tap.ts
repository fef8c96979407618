import { escapeControls } from '../../../../src/internal.js';
import { closingJson, closingText, frameJson, frameText, timeText } from '../frames.js';
import type { WireFrame } from '../inspect/index.js';
import type { Output } from '../output.js';
import type { Lanes } from '../trace/lanes.js';
import { NO_QUEUE } from '../trace/sentences.js';
import { FrameDescriber, withFields } from '../trace/story.js';
import { CaptureFile } from './capture-file.js';
import { type FilterFlags, FrameFilter } from './frame-filter.js';
import { type Traffic, toEach } from './traffic.js';

export interface TapOptions {
  readonly filter: FilterFlags;
  /** Path of a recording. It contains all frames, also those that the filter leaves out. */
  readonly record?: string | undefined;
  /** The clients. The tap adds each client that connects. */
  readonly lanes: Lanes;
  /** Receive the traffic that the filter shows. */
  readonly shown: readonly (Traffic | undefined)[];
  /** The name and the version of this program. */
  readonly program: string;
}

/** What becomes of the traffic of a proxy: a recording, and the frames that the user sees. Counts what it passes on. */
export class Tap {
  readonly capture: CaptureFile | undefined;
  connections = 0;
  requests = 0;
  /** Number of frames that the proxy could not decode as a whole. */
  undecoded = 0;
  /** Receives the traffic of the proxy. */
  readonly traffic: Traffic;

  /** @throws Error if the recording cannot be written; CliError if the filter is wrong. */
  constructor({ filter, record, lanes, shown, program }: TapOptions) {
    const filtered = new FrameFilter(filter, lanes, toEach(shown));
    this.capture = record === undefined ? undefined : new CaptureFile(record, program);
    const counted: Traffic = {
      opened: () => {
        this.connections += 1;
      },
      frame: (frame) => this.#count(frame),
    };
    this.traffic = toEach([counted, this.capture, lanes, filtered]);
  }

  /** Says how much the proxy has forwarded. */
  get summary(): string {
    const undecoded = this.undecoded === 0 ? '' : `, not decoded: ${this.undecoded}`;
    return `connections: ${this.connections}, requests: ${this.requests}${undecoded}`;
  }

  #count({ undecoded, direction, type, detail }: WireFrame): void {
    if (undecoded !== undefined) this.undecoded += 1;
    const beginsHttp1 = detail.kind === 'http1' && detail.line !== '';
    if (direction === 'sent' && (type === 'HEADERS' || beginsHttp1)) this.requests += 1;
  }
}

/** Prints frames and the ends of connections as lines of text, or as lines of JSON if the user has chosen JSON. */
export function framePrinter(out: Output, lanes: Lanes, everyFrame: boolean, startMs: number): Traffic {
  if (out.chosen !== 'json') return lineWriter(lanes, everyFrame, startMs, (text) => out.line(text));
  return {
    frame: (frame) => out.json(frameJson(frame, startMs)),
    closed: (connection, atMs) => out.json(closingJson(connection, atMs, startMs)),
  };
}

/**
 * Formats frames and the ends of connections as lines of text: all of them, or only messages and failures. A failure is
 * also the end of a connection for each call that still waits for its answer.
 */
export function lineWriter(lanes: Lanes, everyFrame: boolean, startMs: number, write: (line: string) => void): Traffic {
  if (everyFrame)
    return {
      frame: (frame) => write(frameText(frame, startMs)),
      closed: (connection, atMs) => write(closingText(connection, atMs, startMs)),
    };
  const describer = new FrameDescriber(NO_QUEUE, false);
  const writeAll = (
    { atMs, connection, direction }: Pick<WireFrame, 'atMs' | 'connection' | 'direction'>,
    descriptions: ReturnType<FrameDescriber['describe']>,
  ): void => {
    for (const { label, protocol, kind } of descriptions) {
      if (kind === 'frame') continue;
      const { name, address } = lanes.laneOf(connection);
      const who = [name, ...(address === '' ? [] : [`(${address})`])].join(' ');
      const arrow = direction === 'sent' ? '>' : '<';
      const place = `${timeText(atMs, startMs)}  ${`${connection}`.padEnd(3)} ${who}`;
      write(escapeControls(`${place}  ${arrow} ${label}  · ${protocol}`));
    }
  };
  return {
    frame: (frame) => writeAll(frame, describer.describe(withFields(frame))),
    closed: (connection, atMs) =>
      writeAll({ atMs, connection, direction: 'received' }, describer.closed(connection, atMs)),
  };
}
