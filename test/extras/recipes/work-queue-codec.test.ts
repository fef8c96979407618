import { inspect } from 'node:util';
import { expect, expectTypeOf, test } from 'vitest';
import { EtcdError, json } from '../../../src/index.js';
import { Session } from '../../../src/locks.js';
import { type Job, WorkQueue } from '../../../src/recipes.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

interface Mail {
  readonly to: string;
}

function parseMail(value: unknown): Mail {
  const { to } = Object(value);
  if (typeof to !== 'string') throw new TypeError('a mail needs a recipient');
  return { to };
}

test('a work queue with a codec takes and gives values of the type of the codec', async () => {
  const etcd = openClient();
  const mails = new WorkQueue(etcd, unique(), { codec: json(parseMail) });
  await mails.enqueue({ to: 'ada@example.com' });
  // @ts-expect-error: the codec encodes mails.
  expect(await errorOf(mails.enqueue(undefined))).toMatchObject({ reason: 'InvalidInput' });
  const stop = new AbortController();
  const seen: Mail[] = [];
  await mails.work({ signal: stop.signal }, async (job) => {
    expectTypeOf(job.value).toEqualTypeOf<Mail>();
    seen.push(job.value);
    expect([job.text(), new TextDecoder().decode(job.bytes)]).toEqual(Array(2).fill('{"to":"ada@example.com"}'));
    await job.complete();
    stop.abort();
  });
  expect(seen).toEqual([{ to: 'ada@example.com' }]);
});

test('`json` without a check makes a work queue of any JSON', async () => {
  const etcd = openClient();
  const numbers = new WorkQueue(etcd, unique(), { codec: json<readonly number[]>() });
  await numbers.enqueue([1, 2]);
  await using session = await Session.open(etcd);
  const job = await numbers.take(session);
  expect(job.value).toEqual([1, 2]);
  await job.complete();
});

test('a job whose value the codec cannot decode fails, becomes a dead job, and can still be read as bytes', async () => {
  const etcd = openClient();
  const name = unique();
  await new WorkQueue(etcd, name).enqueue('not JSON', { id: 'bad' });
  const mails = new WorkQueue(etcd, name, { codec: json(parseMail), maxAttempts: 1 });
  const stop = new AbortController();
  const failures: [unknown, string][] = [];
  const onFailure = (error: unknown, job: Job<Mail>): void => {
    failures.push([error, job.text()]);
    stop.abort();
  };
  await mails.work({ signal: stop.signal, onFailure }, (job) => void job.value.to);
  expect(failures).toEqual([
    [expect.objectContaining({ reason: 'InvalidValue', cause: expect.any(SyntaxError) }), 'not JSON'],
  ]);
  await expect.poll(async () => (await mails.dead()).length).toBe(1);
  const [dead] = await mails.dead();
  expect(() => dead?.value).toThrow(EtcdError);
  expect([dead?.id, new TextDecoder().decode(dead?.bytes), dead?.attempts]).toEqual(['bad', 'not JSON', 1]);
  expect(inspect(dead)).toContain("id: 'bad'");
  expect(JSON.parse(JSON.stringify(dead))).toMatchObject({ id: 'bad', value: 'not JSON' });
});

test('a work queue without a codec takes bytes and text, and gives bytes', async () => {
  const etcd = openClient();
  const queue = new WorkQueue(etcd, unique());
  await queue.enqueue('text', { priority: 1 });
  await queue.enqueue(Uint8Array.of(1, 2), { priority: 2 });
  await using session = await Session.open(etcd);
  const [first, second] = [await queue.take(session), await queue.take(session)];
  expectTypeOf(first.value).toEqualTypeOf<Uint8Array>();
  expect([first.text(), [...second.value]]).toEqual(['text', [1, 2]]);
  await Promise.all([first.complete(), second.complete()]);
  expect(() => new WorkQueue(etcd, 'q', { codec: {} as never })).toThrow('codec.encode');
});
