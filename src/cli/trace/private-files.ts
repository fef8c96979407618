import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import type { WireFrame } from '../../inspect/frames.js';
import { monotonicMs } from '../../runtime/timers.js';
import { frameJson } from '../frames.js';

/** Permissions of files with keys and values. Only the owner may read them. */
const FILE_MODE = 0o600;

/** Creates or replaces a file that only the owner may read, and returns its descriptor. @throws Error if it cannot. */
export function openPrivateFile(path: string): number {
  return openSync(path, 'w', FILE_MODE);
}

/** Creates a file if it does not exist, and leaves its content as it is. @throws Error if it cannot be written. */
export function checkPrivateFile(path: string): void {
  closeSync(openSync(path, 'a', FILE_MODE));
}

/** Writes a file that only the owner may read. @throws Error if it cannot. */
export function writePrivateFile(path: string, text: string): void {
  writeFileSync(path, text, { mode: FILE_MODE });
}

/** A file with a line of JSON for each frame. */
export class JsonLines {
  /** The error that has ended the writing. A traced program continues without the file. */
  problem: Error | undefined;
  readonly #file: number;
  readonly #startMs = monotonicMs();

  /** @throws Error if the file cannot be written. */
  constructor(path: string) {
    this.#file = openPrivateFile(path);
  }

  /** Writes the line at once, because the program may run for a long time. */
  frame(frame: WireFrame): void {
    if (this.problem !== undefined) return;
    try {
      writeSync(this.#file, `${JSON.stringify(frameJson(frame, this.#startMs))}\n`);
    } catch (error) {
      this.problem = error as Error;
    }
  }

  close(): void {
    closeSync(this.#file);
  }
}
