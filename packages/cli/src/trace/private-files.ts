import { closeSync, lstatSync, openSync, rmSync, writeSync } from 'node:fs';
import { checkReplaceable, type JsonObject, monotonicMs, PartFile } from '../../../../src/internal.js';
import { closingJson, frameJson } from '../frames.js';
import type { WireFrame } from '../inspect/index.js';
import type { Traffic } from '../proxy/traffic.js';

// Files with traffic. Only their owner may read them, whatever was at their path before, and links are not followed.

/**
 * Opens a new file in place of the file at the path, and returns its descriptor. Other programs can read the file while
 * it grows. `flag` is the flag that names the path.
 *
 * @throws EtcdError with reason `InvalidInput` if the path names a link or anything else that is not a regular file;
 *   Error if the file cannot be written.
 */
export function openPrivateFile(path: string, flag: string): number {
  const existing = lstatSync(path, { throwIfNoEntry: false });
  if (existing !== undefined) checkReplaceable(existing, flag);
  // An existing file keeps its mode when it is opened. `wx` follows no link that another user creates meanwhile.
  rmSync(path, { force: true });
  return openSync(path, 'wx', 0o600);
}

/** Checks that `writePrivateFile` can write the file, and changes nothing. @throws as `openPrivateFile` does. */
export async function checkPrivateFile(path: string, flag: string): Promise<void> {
  const file = await PartFile.create(path, { argument: flag, refusesLinks: true });
  await file.discard();
}

/** Writes a whole file in place of the file at the path. @throws as `openPrivateFile` does. */
export async function writePrivateFile(path: string, flag: string, text: string): Promise<void> {
  const bytes = new TextEncoder().encode(text);
  await PartFile.with(path, (file) => file.write(bytes), { argument: flag, refusesLinks: true });
}

/** A file with a line of JSON for each frame and for the end of each connection. */
export class JsonLines implements Traffic {
  /** The error that has ended the writing. A traced program continues without the file. */
  problem: Error | undefined;
  readonly #file: number;
  readonly #startMs = monotonicMs();

  /** @throws as `openPrivateFile` does. */
  constructor(path: string, flag: string) {
    this.#file = openPrivateFile(path, flag);
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
