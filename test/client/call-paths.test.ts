import { Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { LocalQueue } from '../../src/locks/local-queue.js';
import { Mutex, Session } from '../../src/locks.js';
import { Rpc } from '../../src/rpc/rpc.js';
import { FrameWriter } from '../../src/wire/http2/frame-writer.js';
import { openClient, unique } from '../support/client.js';

// A reader follows a call through the functions that these tests count. The limits keep the layers thin.

interface Step {
  readonly name: string;
  readonly file: string;
}

/** Calls a method of `prototype` as before, and notes the functions of `src` that are on the stack at each call. */
function stacksAt<T extends object>(prototype: T, method: keyof T & string): Step[][] {
  const stacks: Step[][] = [];
  const original = prototype[method] as (...args: unknown[]) => unknown;
  vi.spyOn(prototype as Record<string, () => unknown>, method).mockImplementation(function (
    this: unknown,
    ...args: unknown[]
  ) {
    stacks.push(stepsOf(new Error().stack));
    return original.apply(this, args);
  });
  return stacks;
}

/** Returns the functions of `src` in a stack, the innermost first. */
function stepsOf(stack = '', source = join(import.meta.dirname, '../../src/')): Step[] {
  return stack.split('\n').flatMap((line) => {
    // The path of the checkout may contain `/src/`, too.
    const [before = '', inSource] = line.split(source);
    if (inSource === undefined) return [];
    const [, named] = /^\s*at (?:async )?(.*) \(/.exec(before) ?? [];
    const [file = ''] = /^[^:)?]*/.exec(inSource) ?? [];
    return [{ name: named ?? 'an anonymous function', file }];
  });
}

test('the steps of a stack are the functions of `src`, also if the path of the checkout contains `/src/`', () => {
  const stack = [
    'Error',
    '    at Socket.<anonymous> (/home/me/src/etcdwire/test/client/call-paths.test.ts:30:5)',
    '    at FrameWriter.flush (/home/me/src/etcdwire/src/wire/http2/frame-writer.ts:90:7)',
    '    at /home/me/src/etcdwire/src/rpc/rpc.ts:12:3',
    '    at async Client.put (file:///home/me/src/etcdwire/src/client/core-client.ts?v=1:5:1)',
  ].join('\n');
  expect(stepsOf(stack, '/home/me/src/etcdwire/src/')).toEqual([
    { name: 'FrameWriter.flush', file: 'wire/http2/frame-writer.ts' },
    { name: 'an anonymous function', file: 'rpc/rpc.ts' },
    { name: 'Client.put', file: 'client/core-client.ts' },
  ]);
});

function filesOf(steps: readonly Step[]): Set<string> {
  return new Set(steps.map(({ file }) => file));
}

const { stackTraceLimit } = Error;

afterEach(() => {
  Error.stackTraceLimit = stackTraceLimit;
});

test('a put passes at most 11 functions in 8 files from the call to the socket', async () => {
  const etcd = openClient();
  await etcd.put(unique(), 'x');
  Error.stackTraceLimit = 100;
  const [frames, writes] = [stacksAt(FrameWriter.prototype, 'message'), stacksAt(Socket.prototype, 'write')];
  await etcd.put(unique(), 'x');
  // The frame waits for a microtask, in which the connection writes the frames of all calls.
  const file = 'wire/http2/frame-writer.ts';
  const steps = [...(writes[0] ?? []), { name: 'FrameWriter.message', file }, ...(frames[0] ?? [])];
  expect(steps.map(({ name }) => name)).toContain('Client.put');
  expect(steps.length).toBeLessThanOrEqual(11);
  expect(filesOf(steps).size).toBeLessThanOrEqual(8);
});

test('a lock that is free passes at most 10 functions in 5 files until its transaction', async () => {
  const session = await Session.open(openClient());
  const mutex = new Mutex(session, unique('lock'));
  Error.stackTraceLimit = 100;
  const [entered, called] = [stacksAt(LocalQueue.prototype, 'enter'), stacksAt(Rpc.prototype, 'call')];
  await (await mutex.lock()).release();
  const inner = called[0] ?? [];
  const outermost = inner.at(-1)?.name;
  // The stack of the transaction ends at a function that has waited for the local queue.
  const outer = entered[0]?.slice((entered[0] ?? []).findIndex(({ name }) => name === outermost) + 1) ?? [];
  const steps = [...inner, ...outer];
  expect(steps.map(({ name }) => name)).toContain('Mutex.lock');
  expect(steps.length).toBeLessThanOrEqual(10);
  expect(filesOf(steps).size).toBeLessThanOrEqual(5);
});
