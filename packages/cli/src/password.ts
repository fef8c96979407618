import type { ReadStream } from 'node:tty';
import { onAbort } from '../../../src/internal.js';
import { wrongArguments } from './exit-code.js';
import { type Io, interruptedBy } from './io.js';

/** Ctrl-C, Ctrl-D and Ctrl-U. A terminal in raw mode passes these keys on as characters. */
const [INTERRUPT, END_OF_INPUT, ERASE_LINE] = ['\x03', '\x04', '\x15'];
/** Matches what keys such as the arrows send, and other control characters. None of these is part of a password. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to remove
const CONTROLS = /\x1b(?:\[[0-9;]*[ -/]*[@-~]|.)?|(?![\x03\x04\x08\x0a\x0d\x15\x7f])[\x00-\x1f]/g;
const ERASE = new Set(['\b', '\x7f']);
const ENTER = new Set(['\r', '\n']);

/**
 * Returns the terminal that shows questions to the user, and at which the user types the passwords. Returns undefined
 * if standard input or standard error is not a terminal.
 */
export function terminalOf({ stdin, stderr }: Pick<Io, 'stdin' | 'stderr'>): ReadStream | undefined {
  return isTyped({ stdin }) && stderr.isTTY ? (stdin as unknown as ReadStream) : undefined;
}

/** Whether the user types the standard input of the program at a terminal. */
export function isTyped({ stdin }: Pick<Io, 'stdin'>): boolean {
  return 'isTTY' in stdin && stdin.isTTY === true;
}

/**
 * Asks questions at a terminal that does not show what the user types. Returns the answers.
 *
 * @throws EtcdError with reason `Canceled` if the user interrupts the program or ends the input with Ctrl-D; CliError
 * if the terminal closes.
 */
export function askHidden(
  terminal: ReadStream,
  { stderr, interrupted }: Pick<Io, 'stderr' | 'interrupted'>,
  questions: readonly string[],
): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const answers: string[] = [];
    const decoder = new TextDecoder();
    let typed = '';
    const finish = (settle: () => void): void => {
      terminal.off('data', onData);
      terminal.off('close', onClose);
      offInterrupted();
      terminal.setRawMode(false);
      terminal.pause();
      settle();
    };
    const onCharacter = (character: string): void => {
      if (ENTER.has(character)) {
        answers.push(typed);
        typed = '';
        stderr.write('\n');
        const next = questions[answers.length];
        if (next === undefined) finish(() => resolve(answers));
        else stderr.write(next);
      } else if (character === INTERRUPT || character === END_OF_INPUT) {
        stderr.write('\n');
        // A terminal in raw mode passes on these keys as characters and sends no signal.
        process.kill(process.pid, 'SIGINT');
      } else if (character === ERASE_LINE) typed = '';
      else if (ERASE.has(character)) typed = [...typed].slice(0, -1).join('');
      else typed += character;
    };
    const onData = (data: Uint8Array): void => {
      // A pasted line can end with two characters, CR and LF.
      const text = decoder.decode(data, { stream: true }).replaceAll('\r\n', '\r').replaceAll(CONTROLS, '');
      for (const character of text) if (answers.length < questions.length) onCharacter(character);
    };
    const onClose = (): void =>
      finish(() => reject(wrongArguments('password: missing, because standard input has ended')));
    const offInterrupted = onAbort(interrupted, () => finish(() => reject(interruptedBy({ interrupted }))));
    if (interrupted.aborted) return reject(interruptedBy({ interrupted }));
    if (terminal.destroyed) return onClose();
    terminal.setRawMode(true);
    terminal.on('data', onData);
    terminal.on('close', onClose);
    terminal.resume();
    stderr.write(questions[0] ?? '');
  });
}
