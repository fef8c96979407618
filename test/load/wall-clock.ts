import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { debianProgram } from '../../scripts/programs.js';

/**
 * A wall clock that a test can set for other processes. It uses libfaketime, which leaves the monotonic clock of the
 * processes unchanged.
 */
export class WallClock implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), 'etcdwire-clock-'));
  readonly #library: string;

  private constructor(library: string) {
    this.#library = library;
    this.set('+0');
  }

  /** Finds libfaketime and creates a clock. Resolves with undefined if libfaketime is not available. */
  static async open(): Promise<WallClock | undefined> {
    try {
      const { path } = await debianProgram('faketime', 'faketime');
      const library = libraryBeside(path);
      return library === undefined ? undefined : new WallClock(library);
    } catch {
      return undefined;
    }
  }

  /** The environment variables of a process that uses this clock. */
  get environment(): NodeJS.ProcessEnv {
    return {
      LD_PRELOAD: this.#library,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    };
  }

  /** Sets the offset from the true time, such as `+1h` or `-1h`. */
  set(offset: string): void {
    writeFileSync(this.#file, offset);
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true });
  }

  get #file(): string {
    return join(this.#folder, 'offset');
  }
}

function libraryBeside(program: string): string | undefined {
  const lib = join(dirname(program), '../lib');
  const candidates = readdirSync(lib).map((folder) => join(lib, folder, 'faketime/libfaketime.so.1'));
  return candidates.find((candidate) => existsSync(candidate));
}
