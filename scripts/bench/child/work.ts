import type { Contender } from '../contenders/contender.js';
import type { Calls } from './calls.js';
import { calledKeys } from './keys.js';
import type { Work } from './task.js';

/** Gets ready to make the calls of one kind; each checks that its answer is the one that was to come. */
export async function callsOf(work: Work, contender: Contender): Promise<Calls> {
  switch (work.kind) {
    case 'get':
    case 'put':
    case 'txn':
      return { call: keyCall(work.kind, work.valueBytes, contender), operationsPerCall: 1 };
    case 'scan': {
      const call = async (): Promise<void> => check(await contender.scan(work.prefix), work.keys);
      return { call, operationsPerCall: work.keys };
    }
    case 'catch-up':
      return { call: () => catchUp(work, contender), operationsPerCall: work.events };
    case 'lease':
      return { call: await contender.lease(), operationsPerCall: 1 };
    case 'lock': {
      const cycle = await contender.lock?.(`bench/lock/${process.pid}`);
      if (cycle === undefined) throw new Error('this client has no locks');
      return { call: cycle, operationsPerCall: 1 };
    }
  }
}

function keyCall(kind: 'get' | 'put' | 'txn', valueBytes: number, contender: Contender): Calls['call'] {
  const keys = calledKeys(valueBytes);
  const value = Buffer.alloc(valueBytes, 'v');
  const keyAt = (index: number): string => keys[index % keys.length] as string;
  if (kind === 'put') return (index) => contender.put(keyAt(index), value);
  if (kind === 'txn') return async (index) => check(await contender.txn(keyAt(index), value), true);
  return async (index) => check(await contender.get(keyAt(index)), valueBytes);
}

/** From the creation of a watch in the past to the last event up to now. */
async function catchUp(work: Extract<Work, { kind: 'catch-up' }>, contender: Contender): Promise<void> {
  const { prefix, startRevision, events } = work;
  let seen = 0;
  let done = (): void => {};
  const all = new Promise<void>((resolve) => {
    done = resolve;
  });
  const onEvent = (): void => {
    seen += 1;
    if (seen === events) done();
  };
  const close = await contender.watch({ prefix }, onEvent, startRevision);
  await all;
  await close();
  check(seen, events);
}

function check<T>(got: T, expected: T): void {
  if (got !== expected) throw new Error(`a wrong answer: got ${got}, expected ${expected}`);
}
