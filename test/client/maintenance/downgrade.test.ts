import { describe, expect, test } from 'vitest';
import { type Client, EtcdError } from '../../../src/index.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { recordingTransport } from '../../support/recording-transport.js';

describe('`downgrade`', () => {
  test('accepts the next lower minor version, and rejects other versions (etcd 3.5 or later)', async (context) => {
    const { etcd, minor } = await start();
    if (minor < 5) return context.skip('needs etcd 3.5 or later');
    const { maintenance } = etcd;
    // A cluster agrees on its version some time after its start, so the first calls may fail.
    await expect.poll(() => reasonOf(maintenance.downgrade('validate', `3.${minor - 1}`))).toBeUndefined();
    expect((await maintenance.downgrade('validate', `3.${minor - 1}`)).version).toMatch(`3.${minor}`);
    expect(await reasonOf(maintenance.downgrade('validate', `3.${minor - 2}`))).toBe('InvalidDowngradeTargetVersion');
    expect(await reasonOf(maintenance.downgrade('validate', 'three'))).toBe('WrongDowngradeVersionFormat');
    // etcd 3.5 applies the change, but then returns a timeout error.
    const answer = minor === 5 ? 'Timeout' : undefined;
    expect(await reasonOf(maintenance.downgrade('enable', `3.${minor - 1}`))).toBe(answer);
    expect(await reasonOf(maintenance.downgrade('validate', `3.${minor - 1}`))).toBe('DowngradeInProcess');
    expect(await reasonOf(maintenance.downgrade('cancel', ''))).toBe(answer);
    await expect.poll(() => reasonOf(maintenance.downgrade('validate', `3.${minor - 1}`))).toBeUndefined();
  });

  test('rejects with Unimplemented on etcd 3.4', async (context) => {
    const { etcd, minor } = await start();
    if (minor >= 5) return context.skip('needs etcd 3.4');
    expect(await errorOf(etcd.maintenance.downgrade('validate', '3.3'))).toMatchObject({
      code: 'Unimplemented',
      outcome: 'rejected',
    });
  });

  test('refuses an unknown action and an empty version, and sends nothing', async () => {
    const { transport, sent } = recordingTransport();
    const { maintenance } = openClient({ transport });
    expect(await reasonOf(maintenance.downgrade('start' as never, '3.5'))).toBe('InvalidInput');
    expect(await reasonOf(maintenance.downgrade('enable', ''))).toBe('InvalidInput');
    expect(sent).toEqual([]);
  });
});

async function start(): Promise<{ readonly etcd: Client; readonly minor: number }> {
  const { endpoints } = await ownEtcd();
  const etcd = openClient({ endpoints });
  const { version } = await etcd.maintenance.status(endpoints[0] as string);
  return { etcd, minor: Number(version.split('.')[1]) };
}

async function reasonOf(call: Promise<unknown>): Promise<string | undefined> {
  try {
    await call;
    return undefined;
  } catch (error) {
    if (error instanceof EtcdError) return error.reason;
    throw error;
  }
}
