import {
  checkCan,
  checkFunction,
  checkOptions,
  checkPositive,
  checkPositiveCount,
  checkSignal,
  invalidInput,
  type SignalOption,
  show,
} from '../../base/index.js';
import type { Client } from '../../extras/full/index.js';
import { checkClock, ManualClock } from '../memory/clock.js';
import { MemoryEtcd } from '../memory/memory-etcd.js';
import { Player } from './player.js';
import type { Recording, ReplayDifference } from './recording.js';
import { clientTarget, memoryTarget } from './target.js';
import { ManualTime, realReplayTime } from './time.js';

/** Options of `replay`. */
export interface ReplayOptions {
  /**
   * The clock of the `MemoryEtcd`. The replay moves it to the recorded times, so that leases expire as recorded.
   * Default: the recorded time does not pass, and a lease expires when the recording says so.
   */
  readonly clock?: ManualClock | undefined;
  /** Time limit in milliseconds for each answer and each event. Default: 1,000 for a `MemoryEtcd`, otherwise 5,000. */
  readonly timeoutMs?: number | undefined;
  /**
   * How fast to repeat the steps at a server: 1 as recorded, 2 in half the time. Default: each step at once. Only for
   * servers other than a `MemoryEtcd`.
   */
  readonly speed?: number | undefined;
  /** Called after each step. The next step waits until the returned promise is settled. */
  readonly onStep?: ((index: number, differences: readonly ReplayDifference[]) => void | Promise<void>) | undefined;
  /** Ends the replay before the next step. */
  readonly signal?: SignalOption;
}

const OPTIONS = {
  clock: checkClock,
  timeoutMs: checkPositiveCount,
  speed: (value: number, argument: string) => checkPositive(value, argument, 'times'),
  onStep: checkFunction,
  signal: checkSignal,
} as const;

/**
 * Repeats the calls of a recording at a server, one after the other, and compares the answers. Resolves with the fields
 * that differ. `etcdwire replay FILE --test` writes a test that calls this function.
 *
 * A new `MemoryEtcd` first gets the state before the recording, and must then answer the recorded revisions. At any
 * other server, the revisions may be others, but the same revision must always stand for the same change. **The replay
 * repeats the writes of the recording at that server**, also those that a watch shows of clients that are not recorded.
 *
 * The replay asks for the recorded lease IDs. It compares neither the IDs, names, sizes and versions of members, nor
 * tokens, nor the progress reports of watches. Events count as the same in any division into answers.
 *
 * @throws EtcdError with reason `InvalidInput` if the server, the recording or an option is unsuitable.
 *
 * @example
 * const clock = new ManualClock();
 * const recording = {
 *   before: { revision: 1 },
 *   steps: [
 *     { ms: 0, call: 'KV/Put', request: { key: 'a', value: '1' }, answer: { header: { revision: '2' } } },
 *     { ms: 1, call: 'KV/DeleteRange', request: { key: 'a' }, answer: { header: { revision: '3' }, deleted: '1' } },
 *   ],
 * };
 * const differences = await replay(recording, new MemoryEtcd({ clock }), { clock });
 * console.log(differences.length); // 0
 */
export async function replay(
  recording: Recording,
  server: MemoryEtcd | Client,
  options: ReplayOptions = {},
): Promise<readonly ReplayDifference[]> {
  checkOptions(options, OPTIONS, 'replay');
  if (!Array.isArray(recording?.steps) || recording.before === undefined)
    throw invalidInput('recording', show(recording), 'a Recording');
  const { clock, speed, onStep, signal } = options;
  const memory = server instanceof MemoryEtcd ? server : undefined;
  const client = server as Client;
  if (memory === undefined) checkCan(client, 'put', 'server', 'a MemoryEtcd or a Client');
  else if (memory.members.length > 1)
    throw invalidInput('server', 'a MemoryEtcd with several members', 'one with a single member, or a Client');
  if (clock !== undefined && !(clock instanceof ManualClock))
    throw invalidInput('clock', 'another clock', 'the ManualClock of the MemoryEtcd');
  const { timeoutMs = memory === undefined ? 5_000 : 1_000 } = options;
  const target = memory === undefined ? clientTarget(client) : memoryTarget(memory);
  const time = clock === undefined ? realReplayTime(memory === undefined ? speed : undefined) : new ManualTime(clock);
  const player = new Player(recording, target, memory, time, timeoutMs);
  const differences: ReplayDifference[] = [];
  try {
    await player.start();
    for (const [index, step] of recording.steps.entries()) {
      if (signal?.aborted) break;
      const found = await player.play(index, step);
      differences.push(...found);
      await onStep?.(index, found);
    }
    differences.push(...player.end());
    return differences;
  } finally {
    await target.close();
  }
}
