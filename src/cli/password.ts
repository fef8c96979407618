import { canceled } from '../errors/etcd-error.js';
import { onAbort } from '../runtime/signals.js';
import type { Sink } from './output.js';

/** The keys that a terminal without echo passes on as characters. */
const [INTERRUPT, END_OF_INPUT, ERASE_LINE] = ['\x03', '\x04', '\x15'];
const ERASE = new Set(['\b', '\x7f']);
const ENTER = new Set(['\r', '\n']);

/** The part of a terminal that the prompt uses. */
interface Terminal {
  readonly isTTY: true;
  setRawMode(isRaw: boolean): unknown;
  on(event: 'data', listener: (data: Uint8Array) => void): unknown;
  off(event: 'data', listener: (data: Uint8Array) => void): unknown;
  resume(): unknown;
  pause(): unknown;
}

/** Whether the input is a terminal, at which a user can type a password. */
export function isTerminal(input: unknown): input is Terminal {
  return typeof input === 'object' && input !== null && 'isTTY' in input && input.isTTY === true;
}

/**
 * Asks questions at a terminal that does not show what the user types. Returns the answers.
 *
 * @throws EtcdError with reason `Canceled` if the user interrupts the program or ends the input.
 */
export function askHidden(
  terminal: Terminal,
  { stderr, interrupted }: { readonly stderr: Sink; readonly interrupted: AbortSignal },
  questions: readonly string[],
): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const answers: string[] = [];
    const decoder = new TextDecoder();
    let typed = '';
    const finish = (settle: () => void): void => {
      terminal.off('data', onData);
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
        // A terminal in this mode sends no signal.
        process.kill(process.pid, 'SIGINT');
      } else if (character === ERASE_LINE) typed = '';
      else if (ERASE.has(character)) typed = [...typed].slice(0, -1).join('');
      else typed += character;
    };
    const onData = (data: Uint8Array): void => {
      for (const character of decoder.decode(data, { stream: true }))
        if (answers.length < questions.length) onCharacter(character);
    };
    const offInterrupted = onAbort(interrupted, () =>
      finish(() => reject(canceled(interrupted, 'not-sent', 'etcdwire'))),
    );
    terminal.setRawMode(true);
    terminal.on('data', onData);
    terminal.resume();
    stderr.write(questions[0] ?? '');
  });
}
