import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Client } from '../../src/index.js';
import { Mutex, Session, withLock } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';

// An error is created where a response is read or a timer fires. Its stack still names the function that made the call.

const DEAD = ['http://127.0.0.1:1'];

/** Functions that make a call that fails. The stack of the error must contain the name of the function. */
const CALLERS = {
  async putsUnderNoLease(etcd: Client) {
    await etcd.put(unique(), 'x', { lease: 1n });
  },
  async readsTheFuture(etcd: Client) {
    await etcd.get(unique(), { revision: 10n ** 15n });
  },
  async runsOutOfTime() {
    await openClient({ endpoints: DEAD }).get('k', { timeoutMs: 50 });
  },
  async waitsForALock() {
    await withLock(openClient({ endpoints: DEAD }), 'lock', { maxWaitMs: 50 }, () => {});
  },
  async waitsForAnotherHolder(etcd: Client) {
    const [name, session] = [unique('lock'), await Session.open(etcd)];
    await using _held = await new Mutex(session, name).lock();
    await new Mutex(await Session.open(etcd), name).lock({ maxWaitMs: 50 });
  },
  async watchesWhatIsCompacted() {
    const etcd = openClient(await ownEtcd());
    const { header } = await etcd.put(unique(), 'x');
    await etcd.put(unique(), 'x');
    await etcd.compact(header.revision);
    for await (const _event of etcd.watch('k', { startRevision: 1n }));
  },
  async scansTheFuture(etcd: Client) {
    for await (const _kv of etcd.scan(unique(), { revision: 10n ** 15n }));
  },
};

describe('the stack of an error', () => {
  test.for(Object.entries(CALLERS))(
    'contains the name of `%s`, the function that awaits the failed call',
    async ([name, caller]) => {
      const { stack } = await errorOf(caller(openClient()));
      expect(stack).toMatch(new RegExp(`at (?:async )?(?:\\w+\\.)?${name} .*stacks\\.test\\.ts`));
    },
  );

  test('contains the call site of an unawaited call when the option `callSites` is true', async () => {
    const etcd = openClient({ callSites: true });
    const rejections: unknown[] = [];
    function forgetsToAwait(): void {
      etcd.put(unique(), 'x', { lease: 1n }).catch((error: unknown) => rejections.push(error));
    }
    forgetsToAwait();
    await expect.poll(() => rejections.length).toBe(1);
    await turn();
    const { stack, message } = rejections[0] as Error;
    expect(message).toContain('requested lease not found');
    expect(stack).toMatch(/the call was made here:\n(?:.*\n)*.*at forgetsToAwait .*stacks\.test\.ts/);
  });

  test('names the place where the program closed the client, if it did not await the call', async () => {
    const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
    const put = errorOf(etcd.put('k', 'v'));
    async function closesTooEarly(): Promise<void> {
      await etcd.close({ drainMs: 0 });
    }
    await closesTooEarly();
    const { reason, cause } = await put;
    expect(reason).toBe('ClientClosed');
    expect((cause as Error).stack).toMatch(
      /^Error: the client was closed here\n(?:.*\n)*.*at closesTooEarly .*stacks\.test\.ts/,
    );
  });
});
