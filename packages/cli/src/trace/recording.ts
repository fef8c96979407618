import { monotonicMs } from '../../../../src/internal.js';
import type { WireFrame } from '../inspect/index.js';
import type { Traffic } from '../proxy/traffic.js';
import type { Lanes } from './lanes.js';
import type { QueueObserver } from './queue-observer.js';
import { type Story, storyOf } from './story.js';
import type { Trace, Traces } from './trace.js';

/** Maximum numbers of frames that a live page shows from the beginning of the trace and from its end. */
const [FIRST_FRAMES, LATEST_FRAMES] = [100, 400];
/** Maximum number of bytes in the frames that a live page keeps from the end of the trace. */
const LATEST_BYTES = 2 ** 24;

interface RecordingOptions {
  /** What the contenders of a queue wait for. Default `lock`. */
  readonly prize?: Story['prize'];
  /** The clients of a proxy. Default: one client. */
  readonly lanes?: Lanes;
  /** Whether the frames are those of one program. Default: whether there are no `lanes`. */
  readonly isProgram?: boolean;
  /** Start of the recording, in milliseconds on the monotonic clock. Default: now. */
  readonly startMs?: number;
  /** Whether to keep also the frames that a live page no longer shows. Default: false. */
  readonly keepsAll?: boolean;
}

/**
 * What is known of a program, or of the clients of a proxy, so far: frames, the states of a queue, and an exit code.
 */
export class Recording implements Traffic {
  readonly frames: WireFrame[] = [];
  /** The clients of a proxy. Undefined for the recording of one program. */
  readonly lanes: Lanes | undefined;
  observer: QueueObserver | undefined;
  exitCode: number | undefined;
  /** What a page shows of standard error. */
  problems = '';
  readonly #title: string;
  readonly #options: Required<Omit<RecordingOptions, 'lanes'>>;
  readonly #closings = new Map<number, number>();
  #endMs: number | undefined;
  #recorded = 0;
  /** Number of bytes in all frames after the first `FIRST_FRAMES`. */
  #latestBytes = 0;

  constructor(title: string, options: RecordingOptions = {}) {
    const { lanes, ...others } = options;
    this.#title = title;
    this.lanes = lanes;
    const isProgram = lanes === undefined;
    this.#options = { prize: 'lock', isProgram, startMs: monotonicMs(), keepsAll: false, ...others };
  }

  /**
   * A number that grows with each frame, each closed connection and each change of the queue, and when the program
   * ends.
   */
  get version(): number {
    return (
      this.#recorded + this.#closings.size + (this.observer?.states.length ?? 0) + (this.exitCode === undefined ? 0 : 1)
    );
  }

  get trace(): Trace {
    return this.#traceOf(this.frames, this.#recorded - this.frames.length);
  }

  /** The trace. A long trace lacks the frames in its middle, because the live page is rendered again and again. */
  get liveTrace(): Trace {
    const { frames } = this;
    const shown =
      frames.length <= FIRST_FRAMES + LATEST_FRAMES
        ? frames
        : [...frames.slice(0, FIRST_FRAMES), ...frames.slice(-LATEST_FRAMES)];
    return this.#traceOf(shown, this.#recorded - shown.length);
  }

  /** Records a frame. */
  frame(frame: WireFrame): void {
    this.#recorded += 1;
    this.frames.push(frame);
    if (this.frames.length > FIRST_FRAMES) this.#latestBytes += frame.bytes.length;
    if (this.#options.keepsAll) return;
    if (this.frames.length > 4 * (FIRST_FRAMES + LATEST_FRAMES)) this.#discard(LATEST_FRAMES);
    else if (this.#latestBytes > 2 * LATEST_BYTES) this.#discard(this.#countOfLatestBytes());
  }

  closed(connection: number, atMs: number): void {
    this.#closings.set(connection, atMs);
  }

  end(exitCode: number | undefined, endMs = monotonicMs()): void {
    this.#endMs = endMs;
    this.exitCode = exitCode;
  }

  #discard(latest: number): void {
    this.frames.splice(FIRST_FRAMES, this.frames.length - FIRST_FRAMES - latest);
    this.#latestBytes = this.frames.slice(FIRST_FRAMES).reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  /** Returns the number of frames at the end that have `LATEST_BYTES` together. */
  #countOfLatestBytes(): number {
    let [count, sum] = [0, 0];
    while (sum < LATEST_BYTES && count < this.frames.length - FIRST_FRAMES) {
      count += 1;
      sum += this.frames.at(-count)?.bytes.length ?? 0;
    }
    return count;
  }

  #traceOf(frames: readonly WireFrame[], leftOut: number): Trace {
    return {
      command: this.#title,
      exitCode: this.exitCode,
      frames,
      story: storyOf(frames, this.observer?.states ?? [], this.#options.prize, {
        isWhole: leftOut === 0,
        lanes: this.lanes,
        closings: this.#closings,
      }),
      leftOut,
      isProgram: this.#options.isProgram,
      startMs: this.#options.startMs,
      endMs: this.#endMs ?? monotonicMs(),
      problems: this.problems,
    };
  }
}

/** The recordings that one page shows. */
export type Recordings = readonly [Recording, ...Recording[]];

export function tracesOf(recordings: Recordings): Traces {
  return recordings.map(({ trace }) => trace) as [Trace, ...Trace[]];
}
