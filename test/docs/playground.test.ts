import { readFileSync, statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Browser, findChromium, launchChromium } from '../../scripts/chromium.js';
import type { PlayClient } from '../../scripts/playground/play-client.js';
import { MAX_STEPS, Playground } from '../../scripts/playground/playground.js';
import { playStory, STORIES, type Story } from '../../scripts/playground/stories.js';
import { PLAYGROUND } from '../../scripts/playground.js';
import { Random } from '../support/simulation/random.js';

const MAX_PAGE_BYTES = 300_000;

function newPlayground(seed?: number): Playground {
  const playground = new Playground(setImmediate, seed);
  onTestFinished(() => playground.close());
  return playground;
}

/** Returns an action several times, so that a random choice picks it more often. */
function repeated(times: number, press: (client: PlayClient) => void): readonly ((client: PlayClient) => void)[] {
  return Array.from({ length: times }, () => press);
}

/** Plays a story to its end. */
async function played(story: Story): Promise<{ readonly playground: Playground; readonly told: readonly string[] }> {
  const playground = newPlayground();
  const told: string[] = [];
  let isOver = false;
  const playing = playStory(story, playground, (sentence) => told.push(sentence)).ended.finally(() => {
    isOver = true;
  });
  playing.catch(() => {});
  while (!isOver) await playground.advance(250);
  await playing;
  return { playground, told };
}

function storyOf(id: string): Story {
  return STORIES.find((story) => story.id === id) as Story;
}

describe.each(STORIES.map((story) => [story.title, story] as const))('the story "%s"', (_, story) => {
  test('matches what the real client does, and ends without an unhandled error', async () => {
    const { playground, told } = await played(story);
    expect(told.length).toBeGreaterThan(3);
    expect(playground.world.unhandled).toEqual([]);
  });
});

test('a watch that connects again after many attempts checks the cluster at most three times', async () => {
  const { playground } = await played(storyOf('resumed-watch'));
  const checks = playground.steps.filter(({ client, label }) => client === 'B' && label === 'count ledger');
  // One check has waited for the connection, and one or two checks begin when a stream opens.
  expect(checks.length).toBeGreaterThan(0);
  expect(checks.length).toBeLessThanOrEqual(3);
});

test('the trace of the playground names the other contenders, also after they have left the queue', async () => {
  const { playground } = await played(storyOf('fair'));
  const labels = playground.steps.filter(({ client }) => client === 'B').map(({ label }) => label);
  expect(labels).toContain('applied: A is ahead');
  expect(labels).toContain('the queue key of A was deleted');
});

test('the queue of the playground has at most one holder and growing tokens, whatever the visitor presses', async () => {
  let locks = 0;
  for (let seed = 1; seed <= 40; seed += 1) {
    const random = new Random(seed);
    const playground = newPlayground(seed);
    const heal = (client: PlayClient): void => {
      client.restart();
      client.resume();
      client.mendWire();
    };
    const press: readonly ((client: PlayClient) => void)[] = [
      ...repeated(6, ({ app }) => app.lock()),
      ...repeated(4, ({ app }) => app.unlock()),
      ...repeated(4, heal),
      ({ app }) => app.write(),
      ({ app }) => app.watch(),
      (client) => client.kill(),
      (client) => client.pause(),
      (client) => client.block(8_000),
      (client) => client.cutWire(),
      (client) => client.toggleLostAnswer(),
      () => playground.compact(),
    ];
    for (let action = 0; action < 60; action += 1) {
      random.pick(press)(random.pick(playground.clients));
      await playground.advance(random.pick([1, 30, 400, 3_000]));
      // A client that is neither stalled nor killed learns in time that it may have lost the lock.
      const holders = playground.clients.filter(
        (client) => client.app.token !== undefined && !client.isStalled && !client.isKilled,
      );
      expect(holders.length, `holders with seed ${seed}`).toBeLessThanOrEqual(1);
    }
    expect(playground.world.unhandled, `unhandled errors with seed ${seed}`).toEqual([]);
    const tokens = playground.steps
      .filter(({ kind }) => kind === 'held')
      .map(({ label }) => Number(label.match(/\d+$/)?.[0]));
    expect(tokens, `tokens with seed ${seed}`).toEqual(tokens.toSorted((a, b) => a - b));
    locks += tokens.length;
  }
  expect(locks).toBeGreaterThan(100);
});

describe('a client of the playground', () => {
  /** Lets time pass until something is true. */
  async function until(playground: Playground, isTrue: () => boolean): Promise<void> {
    for (let times = 0; !isTrue(); times += 1) {
      expect(times).toBeLessThan(1_000);
      await playground.advance(20);
    }
  }

  test('sends nothing while it is paused, however far time moves', async () => {
    const playground = newPlayground();
    const [a, b] = playground.clients as [PlayClient, PlayClient];
    a.app.lock();
    await until(playground, () => a.app.token !== undefined);
    b.app.lock();
    await until(playground, () => playground.queue.length === 2);
    a.pause();
    const last = playground.steps.at(-1)?.id ?? 0;
    await playground.advance(20_000);
    const sent = playground.steps.filter(
      ({ id, client, direction }) => id > last && client === 'A' && direction === 'sent',
    );
    expect(sent).toEqual([]);
    expect(b.app.token).toBe(3n);
    a.resume();
    await until(playground, () => a.app.token === undefined);
    expect(a.app.oldToken).toBe(2n);
  });

  test('stays blocked for the whole time, even if it is paused and continues in between', async () => {
    const playground = newPlayground();
    const [a] = playground.clients as [PlayClient];
    a.block(8_000);
    await playground.advance(1_000);
    a.pause();
    await playground.advance(1_000);
    a.resume();
    await playground.advance(1_000);
    expect(a.isStalled).toBe(true);
    await playground.advance(5_001);
    expect(a.isStalled).toBe(false);
  });

  test('loses only the answer of a write that etcd applied', async () => {
    const playground = newPlayground();
    const [a, b] = playground.clients as [PlayClient, PlayClient];
    a.app.lock();
    await until(playground, () => a.app.token !== undefined);
    playground.server.expireLease(BigInt(`0x${a.app.queueKey?.split('/')[1]}`));
    await until(playground, () => a.app.oldToken !== undefined);
    a.toggleLostAnswer();
    a.app.write();
    await until(playground, () => a.app.lastWrite === 'refused');
    expect([a.losesAnswer, playground.ledger]).toEqual([true, undefined]);
    b.toggleLostAnswer();
    b.app.write();
    await until(playground, () => b.app.lastWrite === 'unknown');
    expect([b.losesAnswer, playground.ledger]).toEqual([false, { value: 'B 1', version: 1n }]);
  });

  test('shows that it has left the queue, and can take the lock again', async () => {
    const playground = newPlayground();
    const [a, b] = playground.clients as [PlayClient, PlayClient];
    a.app.lock();
    await until(playground, () => a.app.token !== undefined);
    b.app.lock();
    await until(playground, () => playground.queue.length === 2);
    b.app.unlock();
    await until(playground, () => !b.app.isWaiting);
    expect(b.app.log.at(-1)).toMatchObject({ text: 'left the queue', kind: 'info' });
    b.app.lock();
    a.app.unlock();
    await until(playground, () => b.app.token !== undefined);
  });
});

test('the trace of the playground keeps its messages while renewals go on for an hour', async () => {
  const playground = newPlayground();
  const [a] = playground.clients as [PlayClient];
  a.app.lock();
  await playground.advance(3_600_000);
  expect(playground.steps[0]).toMatchObject({ label: 'grant a lease of 5 s' });
  expect(playground.steps.length).toBeLessThanOrEqual(2 * MAX_STEPS);
});

describe('the page of the playground', () => {
  const chromium = findChromium();

  /** Opens the page in a browser. */
  async function opened(skip: (reason: string) => never, width = 1_440) {
    if (chromium === undefined) return skip('this machine has no Chromium');
    const browser: Browser = await launchChromium(chromium);
    onTestFinished(() => browser.close());
    const page = await browser.newPage({ viewport: { width, height: 900 } });
    const requests: string[] = [];
    const problems: string[] = [];
    page.on('request', (request) => requests.push(request.url()));
    page.on('console', (message) => problems.push(message.text()));
    page.on('pageerror', (error) => problems.push(error.message));
    await page.goto(pathToFileURL(PLAYGROUND).href);
    await page.locator('[data-story]').first().waitFor();
    return { page, requests, problems };
  }

  test('is one file of less than 300 kB that loads no other file', () => {
    expect(statSync(PLAYGROUND).size).toBeLessThan(MAX_PAGE_BYTES);
    expect(readFileSync(PLAYGROUND, 'utf8')).not.toMatch(/<(?:script|link|img)[^>]*(?:src|href)=/);
  });

  test('plays every story to its end', async ({ skip }) => {
    const { page, requests, problems } = await opened(skip);
    for (const { id, title } of STORIES) {
      await page.locator(`[data-story="${id}"]`).click();
      await page.locator('#skip').click();
      await page.locator('#outcome.done, #outcome.failed').waitFor();
      expect(await page.locator('#outcome').textContent(), title).toContain('The story has ended');
      // The page draws the messages with the next frame.
      await expect.poll(() => page.locator('details.step.message').count(), { message: title }).toBeGreaterThan(5);
    }
    expect(await page.locator('#banner').isVisible()).toBe(false);
    expect(problems).toEqual([]);
    expect(requests).toHaveLength(1);
  });

  test('lets the visitor take the lock, see the queue, and open a message to its bytes', async ({ skip }) => {
    const { page, problems } = await opened(skip);
    await page.locator('#lock-A').click();
    await page.locator('#status-A', { hasText: 'holds the lock, token 2' }).waitFor();
    await page.locator('#lock-B').click();
    await page.locator('#status-B', { hasText: 'waits, 1 ahead' }).waitFor();
    expect(await page.locator('#queue .contender').allTextContents()).toEqual([
      expect.stringMatching(/^A holds the lock/),
      expect.stringMatching(/^B waits/),
    ]);
    const put = page.locator('details.step', { hasText: 'put my queue key' }).first();
    await put.locator('summary').click();
    await put.locator('td', { hasText: 'field 1, length-delimited: compare' }).first().waitFor();
    await page.locator('#kill-A').click();
    await page.locator('[data-ahead="10000"]').click();
    await page.locator('#status-B', { hasText: 'holds the lock, token 3' }).waitFor();
    expect(await page.locator('#status-A').textContent()).toBe('killed');
    const deleted = page.locator('#store tr', { has: page.locator('td.bad') }).locator('td:nth-child(3)');
    expect(await deleted.allTextContents()).toEqual([
      expect.stringMatching(/^etcdwire\/guards\//),
      expect.stringMatching(/^jobs\//),
    ]);
    expect(problems).toEqual([]);
  });

  test('lets the visitor act on the clients only when no story plays', async ({ skip }) => {
    const { page } = await opened(skip);
    await page.locator('[data-story="resumed-watch"]').click();
    await page.locator('#sentences li').first().waitFor();
    for (const id of ['lock-A', 'kill-B', 'compact']) await page.locator(`#${id}:disabled`).waitFor();
    await page.locator('#next').click();
    await page.locator('#sentences li').nth(1).waitFor();
    await page.locator('#reset').click();
    for (const id of ['lock-A', 'kill-B', 'compact']) await page.locator(`#${id}:enabled`).waitFor();
    await page.locator('#unlock-A:disabled').waitFor();
  });

  test('shows frames and renewals on request, and hides the messages of a client', async ({ skip }) => {
    const { page } = await opened(skip);
    await page.locator('#lock-A').click();
    await page.locator('[data-ahead="10000"]').click();
    const settings = page.locator('.step.frame', { hasText: 'SETTINGS' }).first();
    const renewal = page.locator('.step.renewal').first();
    await renewal.waitFor({ state: 'attached' });
    expect([await settings.isVisible(), await renewal.isVisible()]).toEqual([false, false]);
    await page.locator('#show-frame').check();
    await page.locator('#show-renewal').check();
    expect([await settings.isVisible(), await renewal.isVisible()]).toEqual([true, true]);
    await page.locator('#filters [data-client="A"]').uncheck();
    expect([await settings.isVisible(), await renewal.isVisible()]).toEqual([false, false]);
  });

  test('fits a phone without scrolling to the side', async ({ skip }) => {
    const { page } = await opened(skip, 390);
    await page.locator('[data-story="fair"]').click();
    await page.locator('#skip').click();
    await page.locator('#outcome.done').waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
  });
});
