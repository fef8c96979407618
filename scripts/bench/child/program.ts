import { type ContenderName, openContender } from '../contenders/open-contender.js';
import type { Sample } from '../sample.js';
import { type Calls, measureCalls } from './calls.js';
import { footprint } from './footprint.js';
import { LiveEvents, writeEvents } from './live-events.js';
import type { Answer, Task } from './task.js';
import { callsOf } from './work.js';

// One client in a process of its own, which does what its parent tells it, and nothing meanwhile:
// program.mjs <contender> <endpoint>

const [name, endpoint] = process.argv.slice(2) as [ContenderName, string];
const contender = await openContender(name, endpoint);
const liveEvents = new LiveEvents(contender);
/** By work, so that leases and sessions are opened before anything is measured. */
const known = new Map<string, Promise<Calls>>();

process.on('disconnect', () => process.exit());
process.on('message', (task: Task) => {
  perform(task).then(
    (sample) => answer({ sample }),
    (error: unknown) => answer({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  );
});

function answer(message: Answer): void {
  process.send?.(message);
}

async function perform(task: Task): Promise<Sample> {
  switch (task.kind) {
    case 'calls': {
      const key = Object.values(task.work).join();
      const calls = known.get(key) ?? callsOf(task.work, contender);
      known.set(key, calls);
      return measureCalls(await calls, task.limits);
    }
    case 'open-watchers':
      await liveEvents.open(task.prefix, task.watchers);
      return {};
    case 'close-watchers':
      await liveEvents.close();
      return {};
    case 'expect-events':
      liveEvents.expect(task.events);
      return {};
    case 'await-events':
      return liveEvents.measured();
    case 'write-events':
      await writeEvents(contender, task.prefix, task.events, task.keys);
      return {};
    case 'footprint':
      return footprint();
    case 'hand-offs':
      return (await import('./hand-offs.js')).measureHandOffs([endpoint], task.handOffs);
  }
}
