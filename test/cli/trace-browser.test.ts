import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findChromium, launchChromium } from '../../scripts/chromium.js';
import { cli } from '../support/cli.js';
import { unique } from '../support/client.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const chromium = findChromium();

test('the trace page in a browser shows the bytes of a message after a click on the message', async (context) => {
  if (chromium === undefined) return context.skip('this machine has no Chromium');
  const file = join(temporaryFolder(), 'trace.html');
  await cli(['trace', '--html', file, '--', 'lock', unique('lock'), '--', 'true']);
  const browser = await launchChromium(chromium);
  onTestFinished(() => browser.close());
  const page = await browser.newPage({ viewport: { width: 1_400, height: 900 } });
  const requests: string[] = [];
  const problems: string[] = [];
  page.on('request', (request) => requests.push(request.url()));
  page.on('console', (message) => problems.push(message.text()));
  page.on('pageerror', (error) => problems.push(error.message));
  await page.goto(`file://${file}`);

  // The chart of the lock queue shows the time during which this client held the lock.
  expect(await page.locator('.queue rect.holds.own').isVisible()).toBe(true);
  const message = page.locator('details.message', { hasText: 'put my queue key' });
  const bytes = message.locator('td', { hasText: 'field 1, length-delimited: compare' }).first();
  expect(await message.isVisible()).toBe(true);
  expect(await bytes.isVisible()).toBe(false);
  await message.locator('summary').click();
  expect(await bytes.isVisible()).toBe(true);
  // The label of the arrow lies between the two ends of the arrow.
  const arrow = await message.locator('g.message line').boundingBox();
  const words = await message.locator('g.message text:not(.protocol)').boundingBox();
  expect(words?.x).toBeGreaterThan(arrow?.x ?? 0);
  expect((words?.x ?? 0) + (words?.width ?? 0)).toBeLessThan((arrow?.x ?? 0) + (arrow?.width ?? 0));

  const preface = page.locator('details.frame', { hasText: 'PREFACE' });
  expect(await preface.isVisible()).toBe(false);
  await page.locator('#frames').check();
  expect(await preface.isVisible()).toBe(true);
  // The names of the columns stay visible.
  await page.evaluate('window.scrollTo(0, document.body.scrollHeight)');
  expect((await page.locator('.heads').boundingBox())?.y).toBe(0);
  expect(problems).toEqual([]);
  expect(requests).toEqual([`file://${file}`]);
});
