import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import type { WireFrame } from '../../inspect/frames.js';
import type { JsonObject } from '../../reflection/json.js';
import { monotonicMs } from '../../runtime/timers.js';
import { closingJson, frameJson } from '../frames.js';

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

/** A file with a line of JSON for each frame and for the end of each connection. */
export class JsonLines {
  /** The error that has ended the writing. A traced program continues without the file. */
  problem: Error | undefined;
  readonly #file: number;
  readonly #startMs = monotonicMs();

  /** @throws Error if the file cannot be written. */
  constructor(path: string) {
    this.#file = openPrivateFile(path);
  }

  frame(frame: WireFrame): void {
    this.#write(frameJson(frame, this.#startMs));
  }

  closed(connection: number, atMs: number): void {
    this.#write(closingJson(connection, atMs, this.#startMs));
  }

  /** Writes the line at once, because the program may run for a long time. */
  #write(line: JsonObject): void {
    if (this.problem !== undefined) return;
    try {
      writeSync(this.#file, `${JSON.stringify(line)}\n`);
    } catch (error) {
      this.problem = error as Error;
    }
  }

  close(): void {
    closeSync(this.#file);
  }
}
