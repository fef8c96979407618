import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

// Files in which a long run notes how far it is, so that a later run goes on there.

/** Returns what an earlier run has noted. Undefined if the file does not exist. */
export function readCheckpoint<T>(file: string): T | undefined {
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as T) : undefined;
}

/** Replaces the file at once, so that the end of the machine leaves either the earlier or the present checkpoint. */
export function writeCheckpoint(file: string, checkpoint: object): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.part`, JSON.stringify(checkpoint));
  renameSync(`${file}.part`, file);
}
