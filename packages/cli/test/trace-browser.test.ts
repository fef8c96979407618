import { join } from 'node:path';
import { expect, onTestFinished, type TestContext, test } from 'vitest';
import { type Browser, findChromium, launchChromium } from '../../../scripts/chromium.js';
import { cli, RunningCli } from '../../../test/support/cli.js';
import { unique } from '../../../test/support/client.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';

const chromium = findChromium();

/** Traces a lock, and returns the file of its page and a browser. Skips the test if the machine has no Chromium. */
async function tracedLock({
  skip,
}: Pick<TestContext, 'skip'>): Promise<{ readonly file: string; readonly browser: Browser }> {
  if (chromium === undefined) return skip('this machine has no Chromium');
  const file = join(temporaryFolder(), 'trace.html');
  await cli(['trace', '--html', file, '--', 'lock', unique('lock'), '--', 'true']);
  const browser = await launchChromium(chromium);
  onTestFinished(() => browser.close());
  return { file, browser };
}

test('the trace page in a browser shows the bytes of a message after a click on the message', async (context) => {
  const { file, browser } = await tracedLock(context);
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

test('the trace page highlights the bytes of a field, filters messages, and moves through time', async (context) => {
  const { file, browser } = await tracedLock(context);
  const page = await browser.newPage({ viewport: { width: 1_400, height: 900 } });
  const problems: string[] = [];
  page.on('console', (message) => problems.push(message.text()));
  page.on('pageerror', (error) => problems.push(error.message));
  await page.goto(`file://${file}`);

  const put = page.locator('details.message', { hasText: 'put my queue key' });
  await put.locator('summary').click();
  await put.locator('pre span[data-path="compare.0.key"]').hover();
  expect(await put.locator('tr.lit td:last-child').allTextContents()).toEqual([
    'field 3, length-delimited: key: bytes',
    expect.stringMatching(/^length \d+$/),
    expect.stringContaining('"'),
  ]);
  await put.locator('tr[data-path="success.1"]').first().hover();
  expect(await put.locator('pre .lit').first().textContent()).toContain('request_put');

  const renewals = page.locator('details.message[data-kind="leases"]');
  expect(await renewals.first().isVisible()).toBe(true);
  await page.locator('[data-show="leases"]').uncheck();
  expect(await renewals.first().isVisible()).toBe(false);
  await page.locator('#stream').selectOption(String(await put.getAttribute('data-stream')));
  const visible = page.locator('details.message:visible');
  expect(await visible.count()).toBe(2);
  await page.locator('#stream').selectOption('');

  await page.locator('#scrubber').fill('10000');
  expect(await page.locator('.now').count()).toBe(1);
  expect(await page.locator('.queue .cursor').getAttribute('visibility')).toBe('visible');
  expect(await page.locator('#moment').textContent()).toMatch(/^\d+\.\d{3} s$/);
  await page.locator('.legend summary').click();
  expect(await page.locator('.legend li').first().isVisible()).toBe(true);
  expect(problems).toEqual([]);
});

// A key may have existed before, so the page must not say that the trace has shown none.
const NO_KEYS = 'None exists at this moment, as far as the messages show.';

test('the trace page shows the store, the leases and the watches at each step, with the arrow keys', async (context) => {
  const { file, browser } = await tracedLock(context);
  const page = await browser.newPage({ viewport: { width: 1_280, height: 800 } });
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(error.message));
  await page.goto(`file://${file}`);
  expect(await page.locator('#shown-at').textContent()).toBe('at the end');
  // The panel has room beside the diagram.
  expect((await page.locator('aside').boundingBox())?.x).toBeGreaterThan(800);
  await page.locator('details.message', { hasText: 'LeaseGrantResponse' }).locator('summary').click();
  expect(await page.locator('#shown-leases .changed').textContent()).toMatch(/^[0-9a-f]+: 10\.0 of 10 s left/);
  expect(await page.locator('#shown-keys').textContent()).toBe(NO_KEYS);
  await page.locator('details.message', { hasText: 'TxnRequest' }).first().locator('summary').click();
  await page.keyboard.press('ArrowDown');
  expect(await page.locator('#shown-keys .changed').first().textContent()).toContain('version 1 · lease ');
  await page.keyboard.press('ArrowUp');
  expect(await page.locator('#shown-keys').textContent()).toBe(NO_KEYS);
  await page.setViewportSize({ width: 900, height: 800 });
  const panel = await page.locator('aside').boundingBox();
  expect((panel?.y ?? 0) + (panel?.height ?? 0)).toBe(800);
  expect(problems).toEqual([]);
});

test('the page of `trace --serve` grows while the command runs, and keeps expanded messages expanded', async (context) => {
  if (chromium === undefined) return context.skip('this machine has no Chromium');
  const browser = await launchChromium(chromium);
  onTestFinished(() => browser.close());
  const name = unique('lock');
  const traced = new RunningCli(['trace', '--serve', '--', 'lock', name, '--', 'cat']);
  const page = await browser.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(error.message));
  await page.goto(await traced.stderrMatch(/the trace is at (http\S+)/));
  await page.locator('g.held').waitFor({ state: 'attached' });
  const put = page.locator('details.message', { hasText: 'put my queue key' });
  await put.locator('summary').click();
  const rows = await page.locator('details.message').count();
  traced.process.stdin.end();
  await page.locator('header p', { hasText: 'Exit code 0' }).waitFor();
  expect(await page.locator('details.message').count()).toBeGreaterThan(rows);
  expect(await put.locator('pre').isVisible()).toBe(true);
  expect(await traced.done).toMatchObject({ code: 0 });
  expect(problems).toEqual([]);
});

test('the trace page on a phone shows a conversation, without scrolling to the side', async (context) => {
  const { file, browser } = await tracedLock(context);
  const page = await browser.newPage({ viewport: { width: 390, height: 800 } });
  await page.goto(`file://${file}`);
  const sent = page.locator('.bubble.sent', { hasText: 'put my queue key' });
  const received = page.locator('.bubble.received', { hasText: 'applied' }).first();
  expect(await sent.isVisible()).toBe(true);
  expect((await received.boundingBox())?.x).toBeGreaterThan((await sent.boundingBox())?.x ?? 0);
  expect(await page.locator('.row svg').first().isVisible()).toBe(false);
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
});

test('the texts of the trace page have enough contrast in the light and in the dark theme', async (context) => {
  const { file, browser } = await tracedLock(context);
  for (const colorScheme of ['light', 'dark'] as const) {
    const page = await browser.newPage({ colorScheme });
    await page.goto(`file://${file}`);
    const colorOf = async (name: string): Promise<readonly number[]> => {
      const text = await page.evaluate<string>(
        `getComputedStyle(document.documentElement).getPropertyValue('--${name}')`,
      );
      const hex = text.trim().replace('#', '');
      const full = hex.length === 3 ? hex.replaceAll(/./g, '$&$&') : hex;
      return [0, 2, 4].map((at) => Number.parseInt(full.slice(at, at + 2), 16));
    };
    const pairs = [
      ...['ink', 'soft', 'own', 'other', 'bad', 'good', 'tag', 'length'].map((name) => [name, 'paper'] as const),
      ...['ink', 'soft', 'tag', 'length', 'good'].map((name) => [name, 'panel'] as const),
      ...['ink', 'soft', 'tag', 'length', 'good'].map((name) => [name, 'lit'] as const),
      ['on', 'own'] as const,
      ['on', 'other'] as const,
    ];
    for (const [text, ground] of pairs)
      expect(
        contrast(await colorOf(text), await colorOf(ground)),
        `${text} on ${ground}, ${colorScheme}`,
      ).toBeGreaterThan(4.5);
  }
});

/** The contrast ratio of WCAG 2.2. Level AA requires at least 4.5 for text. */
function contrast(first: readonly number[], second: readonly number[]): number {
  const luminance = ([red = 0, green = 0, blue = 0]: readonly number[]): number => {
    const linear = (value: number): number =>
      value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  };
  const [lighter = 0, darker = 0] = [luminance(first), luminance(second)].toSorted((a, b) => b - a);
  return (lighter + 0.05) / (darker + 0.05);
}
