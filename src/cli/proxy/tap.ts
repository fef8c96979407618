import type { WireFrame } from '../../inspect/frames.js';
import type { Context } from '../context.js';
import { frameJson, frameText } from '../frames.js';
import { escapeControls, type Output } from '../output.js';
import { Lanes } from '../trace/lanes.js';
import type { Queue } from '../trace/sentences.js';
import { FrameDescriber, withFields } from '../trace/story.js';
import { CaptureFile } from './capture-file.js';
import type { FaultRules } from './fault-rules.js';
import { type FilterFlags, FrameFilter } from './frame-filter.js';
import { type ListenFlags, type ProxySession, startProxies } from './session.js';
import { addressText, type ProxiedConnection } from './wire-proxy.js';

const NO_QUEUE: Queue = { contenderOf: () => undefined, isPrefix: () => false };

export interface TapOptions {
  readonly filter: FilterFlags;
  /** Path of a recording. It contains all frames, also those that the filter leaves out. */
  readonly record?: string | undefined;
  /** Receives each frame that the filter shows. */
  readonly onFrame: (frame: WireFrame) => void;
  readonly onClosed: (connection: number, atMs: number) => void;
  /** The name and the version of this program. */
  readonly program: string;
}

/** What becomes of the frames of a proxy: a recording, and the frames that the user sees. */
export class Tap {
  readonly lanes = new Lanes();
  readonly capture: CaptureFile | undefined;
  connections = 0;
  requests = 0;
  readonly #filter: FrameFilter;
  readonly #onClosed: TapOptions['onClosed'];

  /** @throws Error if the recording cannot be written; CliError if the filter is wrong. */
  constructor({ filter, record, onFrame, onClosed, program }: TapOptions) {
    this.#onClosed = onClosed;
    this.#filter = new FrameFilter(filter, this.lanes, onFrame);
    this.capture = record === undefined ? undefined : new CaptureFile(record, program);
  }

  /** Starts the proxies whose frames the tap receives: see `startProxies`. */
  start(
    context: Context,
    listen: readonly string[] | undefined,
    flags: ListenFlags,
    rules: FaultRules,
    onProblem: (problem: string) => void,
  ): Promise<ProxySession> {
    return startProxies(context, listen, flags, {
      rules,
      onConnection: (connection) => this.#opened(connection),
      onFrame: (frame) => this.#frame(frame),
      onPiece: () => this.capture?.endPacket(),
      onClosed: (connection, atMs) => {
        this.capture?.closed(connection, atMs);
        this.#onClosed(connection, atMs);
      },
      onProblem,
    });
  }

  #opened(connection: ProxiedConnection): void {
    this.connections += 1;
    this.lanes.add(connection.connection, {
      address: addressText(connection.client),
      certificateName: connection.certificateName,
    });
    this.capture?.opened(connection);
  }

  #frame(frame: WireFrame): void {
    this.capture?.frame(frame);
    this.lanes.follow(frame);
    if (frame.direction === 'sent' && (frame.type === 'HEADERS' || isHttp1Request(frame))) this.requests += 1;
    this.#filter.frame(frame);
  }
}

function isHttp1Request({ detail }: WireFrame): boolean {
  return detail.kind === 'http1' && detail.line !== '';
}

/** Returns a function that prints frames as lines of text, or as lines of JSON if the user has chosen JSON. */
export function framePrinter(
  out: Output,
  lanes: Lanes,
  everyFrame: boolean,
  startMs: number,
): (frame: WireFrame) => void {
  if (out.chosen === 'json') return (frame) => out.json(frameJson(frame, startMs));
  return lineWriter(lanes, everyFrame, startMs, (text) => out.line(text));
}

/** Returns a function that formats frames as lines of text: every frame, or only messages and failures. */
export function lineWriter(
  lanes: Lanes,
  everyFrame: boolean,
  startMs: number,
  write: (line: string) => void,
): (frame: WireFrame) => void {
  if (everyFrame) return (frame) => write(frameText(frame, startMs));
  const describer = new FrameDescriber(NO_QUEUE, false);
  return (frame) => {
    for (const { label, protocol, kind } of describer.describe(withFields(frame))) {
      if (kind === 'frame') continue;
      const time = `${(frame.atMs - startMs).toFixed(1).padStart(9)} ms`;
      const { name, address } = lanes.laneOf(frame.connection);
      const who = [name, ...(address === '' ? [] : [`(${address})`])].join(' ');
      const arrow = frame.direction === 'sent' ? '>' : '<';
      write(escapeControls(`${time}  ${`${frame.connection}`.padEnd(3)} ${who}  ${arrow} ${label}  · ${protocol}`));
    }
  };
}
