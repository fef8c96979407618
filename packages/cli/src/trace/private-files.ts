import { closeSync, lstatSync, openSync, rmSync, writeSync } from 'node:fs';
import { checkReplaceable, type JsonObject, monotonicMs, PartFile } from '../../../../src/internal.js';
import { closingJson, frameJson } from '../frames.js';
import type { WireFrame } from '../inspect/index.js';
import type { Traffic } from '../proxy/traffic.js';

// Files with traffic. Only their owner may read them, whatever was at their path before, and links are not followed.

const encoder = new TextEncoder();

/**
 * A new file in place of the file at the path. Other programs can read the file while it grows. Writes synchronously, so
 * that memory stays bounded if the disk is slow.
 */
export class PrivateFile {
  /** The error that has ended the writing. A traced program and a proxy continue without the file. */
  problem: Error | undefined;
  /** The file descriptor; undefined once it is closed, because another file or connection may then have its number. */
  #file: number | undefined;

  /**
   * `flag` is the flag that names the path.
   *
   * @throws EtcdError with reason `InvalidInput` if the path names a link or anything else that is not a regular file;
   *   Error if the file cannot be written.
   */
  constructor(path: string, flag: string) {
    const existing = lstatSync(path, { throwIfNoEntry: false });
    if (existing !== undefined) checkReplaceable(existing, flag);
    // An existing file keeps its mode when it is opened. `wx` follows no link that another user creates meanwhile.
    rmSync(path, { force: true });
    this.#file = openSync(path, 'wx', 0o600);
  }

  /** Writes bytes, unless an earlier write has failed or the file is closed. */
  write(bytes: Uint8Array): void {
    if (this.#file === undefined) return;
    try {
      for (let at = 0; at < bytes.length && this.problem === undefined; ) at += writeSync(this.#file, bytes, at);
    } catch (error) {
      this.problem = error as Error;
    }
  }

  /** Idempotent. */
  close(): void {
    const file = this.#file;
    this.#file = undefined;
    if (file !== undefined) closeSync(file);
  }
}

/** Checks that `writePrivateFile` can write the file, and changes nothing. @throws as `PrivateFile` does. */
export async function checkPrivateFile(path: string, flag: string): Promise<void> {
  const file = await PartFile.create(path, { argument: flag, refusesLinks: true });
  await file.discard();
}

/** Writes a whole file in place of the file at the path. @throws as `PrivateFile` does. */
export async function writePrivateFile(path: string, flag: string, text: string): Promise<void> {
  await PartFile.with(path, (file) => file.write(encoder.encode(text)), { argument: flag, refusesLinks: true });
}

/** A file with a line of JSON for each frame and for the end of each connection. */
export class JsonLines extends PrivateFile implements Traffic {
  readonly #startMs = monotonicMs();

  frame(frame: WireFrame): void {
    this.#line(frameJson(frame, this.#startMs));
  }

  closed(connection: number, atMs: number): void {
    this.#line(closingJson(connection, atMs, this.#startMs));
  }

  /** Writes the line at once, because the program may run for a long time. */
  #line(line: JsonObject): void {
    this.write(encoder.encode(`${JSON.stringify(line)}\n`));
  }
}
