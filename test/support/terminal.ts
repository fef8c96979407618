import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { inject, onTestFinished } from 'vitest';
import { PROGRAM } from './cli.js';
import { temporaryFolder } from './temporary-folder.js';

const SCRIPT = 'script';

/** The reason why tests cannot open a terminal on this machine. Undefined if they can open a terminal. */
export const NO_TERMINAL = /util-linux/.test(String(spawnSync(SCRIPT, ['--version']).stdout))
  ? undefined
  : 'the program `script` of util-linux, which creates pseudo-terminals, is not on the PATH';

/** Runs a program with its arguments on its own terminal: the option `under` of `RunningCli`. */
export const UNDER_TERMINAL = ['bash', '-c', `exec ${SCRIPT} -qec "$(printf '%q ' "$@")" /dev/null`, 'bash'];

/** The characters that a terminal turns into signals. */
export const CTRL_C = '\x03';
export const CTRL_Z = '\x1a';

/**
 * The maximum time in milliseconds to wait for output. It is shorter than a test's timeout, so that the error can show
 * the output if the wait fails.
 */
const LIMIT_MS = 120_000;

/** An interactive shell on a pseudo-terminal that has `etcdwire` on its PATH. */
export class Terminal {
  readonly process: ChildProcessWithoutNullStreams;
  readonly #ended: Promise<'ended'>;
  #output = '';
  /** The length of the output up to the end of the last match for `until`. */
  #seen = 0;
  #changed: () => void = () => {};

  constructor() {
    const folder = temporaryFolder();
    const program = join(folder, 'etcdwire');
    writeFileSync(program, `#!/bin/sh\nexec ${process.execPath} ${PROGRAM} "$@"\n`);
    chmodSync(program, 0o755);
    this.process = spawn(SCRIPT, ['-qec', 'bash --norc --noprofile --noediting -i', '/dev/null'], {
      env: {
        ...process.env,
        PATH: `${folder}${delimiter}${process.env.PATH}`,
        PS1: '$ ',
        ETCDCTL_ENDPOINTS: inject('endpoints').join(','),
      },
    });
    onTestFinished(() => void this.process.kill('SIGKILL'));
    this.process.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#output += text;
      this.#changed();
    });
    this.#ended = once(this.process, 'close').then(() => 'ended');
  }

  type(text: string): void {
    this.process.stdin.write(text);
  }

  /**
   * Waits until the output after the last match contains the pattern. The terminal echoes input, so the pattern must
   * not match the input.
   */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    const limit = pause(LIMIT_MS, 'timeout', { ref: false });
    for (;;) {
      const found = pattern.exec(this.#output.slice(this.#seen));
      if (found !== null) {
        this.#seen += found.index + found[0].length;
        return found;
      }
      const changed = new Promise<void>((resolve) => {
        this.#changed = resolve;
      });
      if ((await Promise.race([changed, this.#ended, limit])) === undefined) continue;
      throw new Error(`the terminal did not show ${pattern}. Its output:\n${this.#output}`);
    }
  }
}
