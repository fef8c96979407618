import { describe, expect, test } from 'vitest';
import { type Session, withSessions } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { aborted } from '../support/signals.js';

describe('`withSessions`', () => {
  test('runs the action with a session, ends the session when the action returns, and resolves with the result', async () => {
    const [etcd, name] = [openClient(), unique('sessions')];
    const result = await withSessions(etcd, async (session, signal) => {
      expect([session.valid(), signal.aborted]).toEqual([true, false]);
      await etcd.put(name, '', { lease: session.leaseId });
      return 42;
    });
    expect(result).toBe(42);
    expect(await etcd.get(name)).toBeUndefined();
  });

  test('runs the action again with a new session when the session was lost, and does not count what the action returned or threw', async () => {
    const [etcd, other] = [openClient(), openClient()];
    const sessions: Session[] = [];
    const result = await withSessions(etcd, async (session, signal) => {
      sessions.push(session);
      if (sessions.length === 3) return 'the third';
      await other.lease.revoke(session.leaseId);
      await aborted(signal);
      if (sessions.length === 2) throw new Error('thrown by an action whose session was lost');
      return 'the first';
    });
    expect(result).toBe('the third');
    expect(new Set(sessions.map(({ leaseId }) => leaseId)).size).toBe(3);
  });

  test('ends the session and rejects with what the action throws while the session lives', async () => {
    const [etcd, name, error] = [openClient(), unique('sessions'), new Error('the action failed')];
    const failing = withSessions(etcd, async ({ leaseId }) => {
      await etcd.put(name, '', { lease: leaseId });
      throw error;
    });
    await expect(failing).rejects.toBe(error);
    expect(await etcd.get(name)).toBeUndefined();
  });

  test("aborts the signal of the action when the caller's signal aborts, and resolves with what the action then returns", async () => {
    const [etcd, stop] = [openClient(), new AbortController()];
    const result = await withSessions(etcd, { signal: stop.signal }, async (session, signal) => {
      stop.abort();
      await aborted(signal);
      return session.valid();
    });
    expect(result).toBe(true);
  });

  test('resolves with undefined when its signal aborts while no server answers', async () => {
    const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
    const stop = new AbortController();
    const running = withSessions(etcd, { signal: stop.signal }, () => 'never');
    stop.abort();
    expect(await running).toBeUndefined();
  });

  test('resolves with the result of an action that has closed its session itself', async () => {
    expect(await withSessions(openClient(), (session) => session.close().then(() => 'closed'))).toBe('closed');
  });

  test('resolves with the result of the action when the client closes, and rejects afterwards', async () => {
    const etcd = openClient();
    const running = withSessions(etcd, (_, signal) => {
      void etcd.close();
      return signal.aborted ? 'stopped' : 'not stopped';
    });
    expect(await running).toBe('stopped');
    expect(await errorOf(withSessions(etcd, () => 1))).toMatchObject({ reason: 'ClientClosed' });
  });
});
