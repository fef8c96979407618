import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { PlayedStream } from '../../src/testing/replay/stream.js';

/** Keeps the event loop of this process busy, as a slow machine does. */
function block(ms: number): void {
  for (const untilMs = performance.now() + ms; performance.now() < untilMs; );
}

test('the time limit of a replayed stream leaves out the time in which the process did nothing', async () => {
  const stream = new PlayedStream('KV/Put');
  let isDone = false;
  let isAnswered = false;
  const waiting = stream
    .until(() => isDone, 100)
    .then(() => {
      isAnswered = isDone;
    });
  await turn();
  block(300);
  // The answer has waited in the socket, so it arrives after the timers that are due.
  for (let turns = 0; turns < 5; turns += 1) await turn();
  isDone = true;
  stream.receive({}, 0);
  await waiting;
  expect(isAnswered).toBe(true);
});

test('the wait for a replayed answer ends although no answer arrives', async () => {
  const stream = new PlayedStream('KV/Put');
  await stream.until(() => false, 50);
  expect(stream.ended).toBeUndefined();
});
