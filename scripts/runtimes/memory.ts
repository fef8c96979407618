import { CoreClient } from '../../src/core.js';
import { Mutex, Session } from '../../src/locks.js';
import type { TransportFactory } from '../../src/transport.js';

// Shows how much memory the client uses. This file must not use an API that only some runtimes have.

const WATCHES = 100;

/** Memory of a process in bytes. */
export interface Memory {
  /** Memory of JavaScript, after garbage collection if the runtime allows it. 0 if the runtime does not show it. */
  readonly heap: number;
  readonly resident: number;
}

/** The memory of a program at its start, while it holds a lock, and while it also has 100 watches. */
export type MemoryRows = readonly [start: Memory, locked: Memory, watching: Memory];

export async function memoryRows(
  endpoint: string,
  memoryOf: () => Memory | Promise<Memory>,
  transport?: TransportFactory,
): Promise<MemoryRows> {
  const start = await memoryOf();
  const etcd = new CoreClient({ endpoints: [endpoint], transport });
  const session = await Session.open(etcd, { ttl: 5 });
  const held = await new Mutex(session, 'memory/lock').lock();
  const locked = await memoryOf();
  const watches = Array.from({ length: WATCHES }, (_, index) => etcd.watch(`memory/${index}`));
  await Promise.all(watches.map((watch) => watch.created()));
  const watching = await memoryOf();
  await held.release();
  await session.close();
  await etcd.close();
  return [start, locked, watching];
}

/**
 * The program that the runtimes run. `memory ENDPOINT` prints the memory as JSON. `hold ENDPOINT LOCK` takes a lock,
 * prints `held`, and keeps the lock until the process ends.
 */
export async function runHolder(
  [task, endpoint = '', lock = '']: readonly string[],
  memoryOf: () => Memory,
  print: (line: string) => void,
  transport?: TransportFactory,
): Promise<void> {
  if (task === 'memory') return print(JSON.stringify(await memoryRows(endpoint, memoryOf, transport)));
  const session = await Session.open(new CoreClient({ endpoints: [endpoint], transport }), { ttl: 2 });
  await new Mutex(session, lock).lock();
  print('held');
}
