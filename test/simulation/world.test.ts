import { expect, test } from 'vitest';
import { environment } from '../../src/base/environment.js';
import { after, monotonicMs, pause } from '../../src/base/timers.js';
import { Process } from './process.js';
import { Random } from './random.js';
import { World } from './world.js';

const FOREVER_MS = 1e9;

/** Runs `play` in a simulated world, and then all events of that world. */
async function inWorld(play: (world: World) => Promise<void> | void): Promise<World> {
  const world = new World(new Random(1));
  const restore = world.install();
  try {
    await play(world);
    await world.run(() => false, FOREVER_MS);
  } finally {
    restore();
  }
  return world;
}

test('an event of a simulated world ends after a chain of 100,000 promises, before the next event begins', async () => {
  const steps: string[] = [];
  const process = new Process('a');
  await inWorld((world) => {
    world.at(world.now, process, 'chain', '', async () => {
      for (let link = 0; link < 100_000; link += 1) await undefined;
      steps.push('end of the chain');
    });
    world.at(world.now + 1, process, 'next', '', () => steps.push('next event'));
  });
  expect(steps).toEqual(['end of the chain', 'next event']);
});

test('a simulated world reports a rejection that is not handled by the end of its event, even if a later event handles it', async () => {
  const process = new Process('a');
  const world = await inWorld((made) => {
    let rejected: Promise<never> | undefined;
    made.at(made.now, process, 'rejects', '', () => {
      rejected = Promise.reject(new Error('too late'));
    });
    made.at(made.now + 1, process, 'handles', '', () => void rejected?.catch(() => {}));
  });
  expect(world.unhandled.map(String)).toEqual(['Error: too late']);
});

test('a timer of a simulated world fires at its simulated time, and in the process that has started it', async () => {
  const fired: string[] = [];
  await inWorld((world) => {
    for (const name of ['a', 'b'])
      world.at(world.now, new Process(name), 'starts', '', async () => {
        const startMs = monotonicMs();
        await pause(name === 'a' ? 86_400_000 : 5);
        fired.push(`${world.current.name} after ${monotonicMs() - startMs} ms`);
      });
  });
  expect(fired).toEqual(['b after 5 ms', 'a after 86400000 ms']);
});

test('a stalled process of a simulated world runs its timers late, and then sees the later time', async () => {
  const seen: number[] = [];
  await inWorld((world) => {
    const process = new Process('a');
    const startMs = world.now;
    world.at(startMs, process, 'starts', '', () => void after(10, () => seen.push(monotonicMs() - startMs)));
    world.at(startMs + 1, world.outside, 'stalls', '', () => {
      process.stalledUntil = startMs + 5_000;
    });
  });
  expect(seen).toEqual([5_000]);
});

test('a process of a simulated world that is stopped in the middle of an event sees the time pass between two clock reads', async () => {
  const seen: number[] = [];
  const others: number[] = [];
  await inWorld((world) => {
    const process = new Process('a');
    const startMs = world.now;
    process.stop = { reads: 2, ms: 300 };
    world.at(startMs, process, 'reads', '', () => {
      seen.push(monotonicMs() - startMs, monotonicMs() - startMs);
      after(0, () => seen.push(monotonicMs() - startMs));
    });
    world.at(startMs + 100, new Process('b'), 'reads', '', () => others.push(monotonicMs() - startMs));
  });
  expect([seen, others]).toEqual([[0, 300, 300], [100]]);
});

test('a killed process of a simulated world runs no more events', async () => {
  const seen: string[] = [];
  await inWorld((world) => {
    const process = new Process('a');
    world.at(world.now, process, 'starts', '', () => void after(10, () => seen.push('timer')));
    world.at(world.now + 1, world.outside, 'kills', '', () => {
      process.isKilled = true;
    });
  });
  expect(seen).toEqual([]);
});

test('a process of a simulated world that is to end runs the given number of events before it is killed', async () => {
  const seen: string[] = [];
  await inWorld((world) => {
    const process = new Process('a');
    const kill = (): void => {
      seen.push('killed');
      process.isKilled = true;
    };
    process.end = { events: 2, kill };
    for (const name of ['first', 'second', 'third', 'fourth'])
      world.at(world.now, process, name, '', () => seen.push(name));
  });
  expect([seen.length, seen.at(-1)]).toEqual([3, 'killed']);
});

/** Plays a process that reads its clocks, is suspended for 5 s after 10 ms, and whose timer of 20 ms then fires. */
async function advancesOver(suspend: (world: World, process: Process) => void): Promise<{ [clock: string]: number }> {
  const advances: { [clock: string]: number } = {};
  await inWorld((world) => {
    const process = new Process('a');
    const read = (): { [clock: string]: number } => ({
      world: world.time,
      monotonic: monotonicMs(),
      wall: environment.Date.now(),
      boot: environment.bootMs?.() ?? 0,
    });
    world.at(world.now, process, 'starts', '', () => {
      const before = read();
      after(20, () => {
        for (const [clock, ms] of Object.entries(read())) advances[clock] = Math.round(ms - (before[clock] ?? 0));
      });
    });
    world.at(world.now + 10, world.outside, 'suspends', '', () => suspend(world, process));
  });
  return advances;
}

test('the monotonic clock and the timers of a suspended process of a simulated world stand still', async () => {
  const advances = await advancesOver((world, process) => world.suspend(process, 5_000));
  expect(advances).toEqual({ world: 5_020, monotonic: 20, wall: 5_020, boot: 5_020 });
});

test('a suspension of a process of a simulated world may also stop its wall clock or its boot clock', async () => {
  const withoutWall = await advancesOver((world, process) => world.suspend(process, 5_000, 'wall'));
  expect(withoutWall).toEqual({ world: 5_020, monotonic: 20, wall: 20, boot: 5_020 });
  const withoutBoot = await advancesOver((world, process) => world.suspend(process, 5_000, 'boot'));
  expect(withoutBoot).toEqual({ world: 5_020, monotonic: 20, wall: 5_020, boot: 20 });
});

test('a process of a simulated world that is suspended in the middle of an event sees only the other clocks advance', async () => {
  const seen: number[][] = [];
  await inWorld((world) => {
    const process = new Process('a');
    process.stop = { reads: 3, ms: 300, suspends: { alsoStops: undefined } };
    world.at(world.now, process, 'reads', '', () => {
      for (let times = 0; times < 2; times += 1) seen.push([monotonicMs(), environment.Date.now()]);
    });
  });
  const [[monotonic = 0, wall = 0] = [], second] = seen;
  expect(second).toEqual([expect.closeTo(monotonic, 3), wall + 300]);
});
