import { Presets, SingleBar } from 'cli-progress';

/** Tells how far a run is, on stderr. */
export interface Progress {
  /** Round 0 is the preparation. */
  at(workload: string, round: number, rounds: number, contender: string | undefined): void;
  step(): void;
  stop(): void;
}

/** A bar on a terminal, else a line for each round. */
export function startProgress(steps: number): Progress {
  return process.stderr.isTTY ? bar(steps) : lines();
}

function bar(steps: number): Progress {
  const format = '{bar} {percentage}% {duration_formatted}  {what}';
  // Few frames: drawing takes time on the machine that is being measured.
  const options = { format, fps: 2, hideCursor: true, clearOnComplete: true, stream: process.stderr };
  const drawn = new SingleBar(options, Presets.shades_classic);
  drawn.start(steps, 0, { what: '' });
  return {
    at: (workload, round, rounds, contender) =>
      drawn.update({ what: [workload, roundText(round, rounds), contender].filter(Boolean).join(', ') }),
    step: () => drawn.increment(),
    stop: () => drawn.stop(),
  };
}

function lines(): Progress {
  let last = '';
  return {
    at: (workload, round, rounds) => {
      const line = `${workload}, ${roundText(round, rounds)}`;
      if (line !== last) process.stderr.write(`${line}\n`);
      last = line;
    },
    step: () => {},
    stop: () => {},
  };
}

function roundText(round: number, rounds: number): string {
  return round === 0 ? 'getting ready' : `round ${round} of ${rounds}`;
}
