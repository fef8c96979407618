import type { WireFrame } from '../inspect/index.js';
import type { Story } from './story.js';

/** What one program, or the clients of a proxy, did on the wire. */
export interface Trace {
  /** The command line, or what else has recorded the frames. */
  readonly command: string;
  readonly exitCode: number | undefined;
  /** The frames that the story describes. */
  readonly frames: readonly WireFrame[];
  readonly story: Story;
  /** Number of frames that the story leaves out. */
  readonly leftOut: number;
  /** Whether the frames are those of one program, and not of the clients of a proxy. */
  readonly isProgram: boolean;
  /** Start of the program, in milliseconds on the monotonic clock. */
  readonly startMs: number;
  /** End of the program, or the present time if the program still runs, in milliseconds on the monotonic clock. */
  readonly endMs: number;
  /** What the page shows of the standard error of etcdwire. */
  readonly problems: string;
}

/** The traces that one page shows. */
export type Traces = readonly [Trace, ...Trace[]];
