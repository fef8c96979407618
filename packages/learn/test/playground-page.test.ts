import { readFileSync, statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Browser, findChromium, launchChromium } from '../../../scripts/chromium.js';
import { STORIES } from '../src/playground/stories.js';
import { PLAYGROUND } from '../src/playground.js';

const MAX_PAGE_BYTES = 500_000;
const DESKTOP = { width: 1_280, height: 800 };
const PHONE = { width: 390, height: 844 };
const URL_OF_PAGE = pathToFileURL(PLAYGROUND).href;

/** Opens a state of the page in a browser. */
async function opened(skip: (reason: string) => never, fragment = '', viewport = DESKTOP) {
  const chromium = findChromium();
  if (chromium === undefined) return skip('this machine has no Chromium');
  const browser: Browser = await launchChromium(chromium);
  onTestFinished(() => browser.close());
  const page = await browser.newPage({ viewport });
  const requests: string[] = [];
  const problems: string[] = [];
  page.on('request', (request) => requests.push(request.url()));
  page.on('console', (message) => problems.push(message.text()));
  page.on('pageerror', (error) => problems.push(error.message));
  await page.goto(URL_OF_PAGE + fragment);
  // The clock shows the time of the first state.
  await page.locator('#clock', { hasText: 's' }).waitFor();
  const is = (hash: string): Promise<void> => expect.poll(() => new URL(page.url()).hash).toBe(hash);
  return { page, requests, problems, is };
}

test('the page of the playground is one file of less than 500 kB that loads no other file', () => {
  expect(statSync(PLAYGROUND).size).toBeLessThan(MAX_PAGE_BYTES);
  expect(readFileSync(PLAYGROUND, 'utf8')).not.toMatch(/<(?:script|link|img)[^>]*(?:src|href)=/);
});

describe('the page of the playground', () => {
  test('opens with the first story, which plays on until the visitor pauses it', async ({ skip }) => {
    const { page, requests, problems, is } = await opened(skip);
    await page.locator('#pace').selectOption('fast');
    await is('#story/fair/2');
    expect(await page.locator('#title').textContent()).toBe('A fair hand-off');
    await page.locator('#sentence', { hasText: 'B asks too' }).waitFor();
    await page.locator('#play', { hasText: 'Pause' }).click();
    await page.locator('#play', { hasText: 'Play' }).waitFor();
    expect([problems, requests.length]).toEqual([[], 1]);
  });

  test('plays only the first scene if the visitor wants no motion', async ({ skip }) => {
    const { page, is } = await opened(skip, '#try/1');
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await page.locator('#stories a', { hasText: 'A fair hand-off' }).click();
    await is('#story/fair/1');
    await page.locator('#play', { hasText: 'Play' }).waitFor();
  });

  test('shows each state of each story at its own address, with its arrow in the caption', async ({ skip }) => {
    const { page, problems } = await opened(skip, '#try/1');
    for (const { id, scenes, title } of STORIES)
      for (const [index, { says }] of scenes.entries()) {
        const fragment = `#story/${id}/${index + 1}`;
        await page.goto(URL_OF_PAGE + fragment);
        await page.locator(`#dots a[href="${fragment}"][aria-current]`).waitFor();
        expect(await page.locator('#title').textContent()).toBe(title);
        const sentence = (await page.locator('#sentence').textContent()) ?? '';
        if (typeof says === 'string') expect(sentence).toBe(says);
        expect(sentence.length, fragment).toBeGreaterThan(20);
        expect(await page.locator('#figure .arrow, #figure .dot').count(), fragment).toBe(1);
        expect(await page.locator('#meaning .words').textContent(), fragment).not.toBe('');
        expect(await page.locator('#banner').isVisible(), fragment).toBe(false);
      }
    expect(problems).toEqual([]);
  });

  test('goes from step to step with the buttons, the keys and the history of the browser', async ({ skip }) => {
    const { page, is } = await opened(skip, '#story/fair/2');
    await page.locator('#next').click();
    await is('#story/fair/3');
    await page.locator('#sentence', { hasText: 'C asks as well' }).waitFor();
    await page.keyboard.press('ArrowRight');
    await is('#story/fair/4');
    await page.keyboard.press('ArrowLeft');
    await is('#story/fair/3');
    await page.goBack();
    await is('#story/fair/4');
    await page.locator('#status-B', { hasText: 'holds the lock, token 3' }).waitFor();
    await page.goBack();
    await page.goBack();
    await is('#story/fair/2');
    await page.locator('#status-B', { hasText: 'waits, 1 ahead' }).waitFor();
    await page.goForward();
    await page.locator('#sentence', { hasText: 'C asks as well' }).waitFor();
    await page.reload();
    await page.locator('#status-C', { hasText: 'waits, 2 ahead' }).waitFor();
    expect(await page.locator('#sentence').getAttribute('aria-live')).toBe('polite');
  });

  test('plays the first story if the address leads to no state, and says so', async ({ skip }) => {
    const { page, is } = await opened(skip, '#story/unknown/9');
    await page.locator('#banner', { hasText: 'leads to no state' }).waitFor();
    await is('#story/fair/1');
    await page.locator('#stories a', { hasText: 'The holder dies' }).click();
    await page.locator('#banner').waitFor({ state: 'hidden' });
  });

  test('leads from the end of a story to the next story', async ({ skip }) => {
    const { page, is } = await opened(skip, '#story/fair/5');
    await page.locator('#next').click();
    await is('#story/fair/6');
    // A second press of "Next" must not leave the end of the story, so another button leads to the next story.
    await expect.poll(() => page.locator('#next').isDisabled()).toBe(true);
    await page.keyboard.press('ArrowRight');
    await is('#story/fair/6');
    await page.locator('#next-story', { hasText: 'Next story: The holder dies' }).click();
    await is('#story/dies/1');
    await page.locator('#title', { hasText: 'The holder dies' }).waitFor();
    await page.locator('#next-story').waitFor({ state: 'hidden' });
    expect(await page.locator('#back').isDisabled()).toBe(true);
  });

  test('names the sender, the receiver, the RPC and the meaning of the present step', async ({ skip }) => {
    const { page } = await opened(skip, '#story/fair/4');
    const meaning = page.locator('#meaning');
    await meaning.getByText('the queue key of A was deleted').waitFor();
    expect(await meaning.textContent()).toMatch(/^etcd → B Watch the queue key of A was deleted 1\.\d\d\ss.*revision/);
    expect(await page.locator('#figure .arrow.left').count()).toBe(1);
    expect(await page.locator('#spoken').textContent()).toBe('etcd to B, Watch: the queue key of A was deleted.');
  });

  test('draws a lost answer as an arrow that ends at a cross, and begins a line with the unknown outcome', async ({
    skip,
  }) => {
    const { page } = await opened(skip, '#story/lost-answer/3');
    await page.locator('#figure .lost .arrow.left').waitFor();
    expect(
      await page.evaluate("getComputedStyle(document.querySelector('#figure .lost .arrow'), '::after').content"),
    ).toBe('"✕"');
    expect(await page.locator('#meaning').textContent()).toMatch(/^etcd → A Txn etcd applied the write of A, but its/);
    expect(await page.locator('#log-A li').last().textContent()).toMatch(
      /^outcome unknown: etcd may have written "A 1"/,
    );
  });

  test('shows a killed client without the color of a holder', async ({ skip }) => {
    const { page } = await opened(skip, '#story/dies/2');
    await page.locator('.card.killed #status-A', { hasText: 'killed' }).waitFor();
    const colorOf = (selector: string): Promise<unknown> =>
      page.evaluate(`getComputedStyle(document.querySelector('${selector}')).color`);
    // The panel of all logs still shows in green that A took the lock.
    expect(await colorOf('#log-A li.good')).not.toBe(await colorOf('#log li.good'));
    expect(await page.locator('#log li').last().textContent()).toBe('0.70 s A is killed');
  });

  test('shows the store of the member that a client has called last, until the visitor chooses a member', async ({
    skip,
  }) => {
    const { page } = await opened(skip, '#story/cut-off/3');
    const shown = page.locator('#store-of [aria-pressed="true"]');
    expect(await shown.textContent()).toBe('of m2');
    expect(await page.locator('#store').textContent()).toContain('A 1');
    await page.locator('#store-of button', { hasText: 'm0' }).click();
    await expect.poll(() => shown.textContent()).toBe('of m0');
    await page.locator('#next').click();
    await page.locator('#log-C', { hasText: 'call did not finish' }).waitFor();
    expect(await shown.textContent()).toBe('of m0');
  });

  test('shows the store at each revision with a slider', async ({ skip }) => {
    const { page } = await opened(skip, '#story/fair/4');
    const slider = page.locator('#revision');
    await page.locator('#store td', { hasText: 'deleted' }).waitFor();
    expect(await page.locator('#revision-shown').textContent()).toBe('5 of 5, now');
    expect(await page.locator('#store th').allTextContents()).toEqual([
      'key',
      'value',
      'create',
      'mod',
      'ver.',
      'lease',
    ]);
    await slider.focus();
    await slider.press('ArrowLeft');
    await slider.press('ArrowLeft');
    await page.locator('#revision-shown', { hasText: '3 of 5' }).waitFor();
    expect(await page.locator('#change').textContent()).toMatch(/^Revision 3, at .* put jobs\/…\w{4} = B\.$/);
    expect(await slider.getAttribute('aria-valuetext')).toContain('Revision 3');
    // A slider uses the arrow keys itself.
    expect(page.url()).toContain('#story/fair/4');
    expect(await page.locator('#store tr.changed').count()).toBe(2);
    await slider.press('End');
    await page.locator('#revision-shown', { hasText: '5 of 5, now' }).waitFor();
  });

  test('shows the raft of three members', async ({ skip }) => {
    const { page } = await opened(skip, '#story/minority/4');
    await page.locator('#member-m0', { hasText: 'cut off' }).waitFor();
    const leader = page.locator('.member.leader');
    expect(await leader.count()).toBe(1);
    expect(await leader.textContent()).toMatch(/leader.*term 3.*commit 7/);
    expect(await page.locator('#info-m0 .entries li').last().getAttribute('class')).toBe('open');
    expect(await page.locator('#info-m0 .last').textContent()).toContain('not committed');
    await page.locator('#store-of button', { hasText: 'm0' }).click();
    await page.locator('#revision-shown', { hasText: '3 of 3' }).waitFor();
    await page.locator('#next').click();
    await page.locator('#play', { hasText: 'Play' }).waitFor();
    await page.locator('#revision-shown', { hasText: '4 of 4' }).waitFor();
    await page.locator('#info-m0 .entries li.open').waitFor({ state: 'detached' });
  });

  test('shows what each client does in its log', async ({ skip }) => {
    const { page } = await opened(skip, '#story/fair/4');
    const lines = page.locator('#log li');
    await lines.first().waitFor();
    expect((await lines.allTextContents()).slice(0, 2)).toEqual([
      '0.00 s A asks for the lock',
      '0.15 s A holds the lock, fencing token 2',
    ]);
    expect(await page.locator('#log-B li').allTextContents()).toEqual([
      'asks for the lock',
      'holds the lock, fencing token 3',
    ]);
  });

  test.for([{ width: 1_400, height: 900 }, { width: 1_000, height: 800 }, PHONE])(
    'shows the fields and the bytes of a message in a window of %j without cutting lines',
    async (size, { skip }) => {
      const { page } = await opened(skip, '#story/fair/2', size);
      if (size === PHONE) await page.locator('#tab-trace').click();
      await page.locator('details.step', { hasText: 'put my queue key' }).last().locator('summary').click();
      await page.locator('.body td', { hasText: 'field 1, length-delimited: compare' }).first().waitFor();
      const [shown, needed] = (await page.evaluate(
        "['clientWidth', 'scrollWidth'].map((name) => document.querySelector('details[open] .body')[name])",
      )) as [number, number];
      expect(needed).toBeLessThanOrEqual(shown);
    },
  );

  test.for([PHONE, { width: 360, height: 640 }])(
    'shows all stories at once in the menu on a phone of %j',
    async (size, { skip }) => {
      const { page } = await opened(skip, '#story/fair/1', size);
      await page.locator('#menu').click();
      const last = await page.locator('#stories a').last().boundingBox();
      expect((last?.y ?? size.height) + (last?.height ?? 0)).toBeLessThan(size.height);
      const [shown, needed] = (await page.evaluate(
        "['clientHeight', 'scrollHeight'].map((name) => document.getElementById('nav')[name])",
      )) as [number, number];
      expect(needed).toBeLessThanOrEqual(shown);
    },
  );

  test('fits a phone: the result of a step is visible without scrolling', async ({ skip }) => {
    const { page, is } = await opened(skip, '#story/minority/4', PHONE);
    const bottomOf = async (selector: string): Promise<number> => {
      const element = page.locator(selector);
      // The page replaces the rows of the store when it draws them again. A row that is gone has no box.
      for (;;) {
        await element.waitFor();
        const box = await element.boundingBox();
        if (box !== null) return box.y + box.height;
      }
    };
    for (const fragment of ['#story/fair/4', '#story/minority/4', '#story/minority/2/try', '#try/3/A.lock@0,@600']) {
      await page.goto(URL_OF_PAGE + fragment);
      await is(fragment);
      await page.locator('#store tr').nth(1).waitFor();
      for (const selector of ['#figure', '#meaning', '#next', '#clients', '#revision', '#store tr >> nth=1'])
        expect(await bottomOf(selector), `${selector} at ${fragment}`).toBeLessThan(PHONE.height);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(PHONE.width);
    }
    await page.locator('#tab-trace').click();
    await page.locator('#steps .step.message').last().waitFor();
    await page.locator('#tab-log').click();
    await page.locator('#log', { hasText: 'A holds the lock' }).waitFor();
    await page.locator('#menu').click();
    await page.locator('#stories a', { hasText: 'The leader dies' }).click();
    await page.locator('#title', { hasText: 'The leader dies' }).waitFor();
    expect(await page.locator('#nav').isVisible()).toBe(false);
  });
});

describe('the visitor of the playground', () => {
  test('takes the lock, sees the queue, breaks something, and undoes it', async ({ skip }) => {
    const { page, problems } = await opened(skip, '#try/1');
    await page.locator('#pace').selectOption('fast');
    await page.locator('#act-lock').waitFor();
    // At first, the page shows only what a visitor needs at first.
    expect(await page.locator('#actions button').allTextContents()).toEqual([
      ...['A', 'B', 'C', 'Lock', 'Write', 'Read', 'Watch', 'Break something'],
    ]);
    await page.locator('#act-lock').click();
    await page.locator('#status-A', { hasText: 'holds the lock, token 2' }).waitFor();
    await page.locator('[data-choose="B"]').click();
    await page.locator('#act-lock').click();
    await page.locator('#status-B', { hasText: 'waits, 1 ahead' }).waitFor();
    await page.locator('#play', { hasText: 'Let time run' }).waitFor();
    const queued = new URL(page.url()).hash;
    expect(queued).toMatch(/^#try\/1\/A\.lock@\d+,B\.lock@\d+,@\d+$/);
    await page.locator('#break').click();
    await page.locator('[data-choose="A"]').click();
    await page.locator('#act-kill').click();
    await page.locator('#later').click();
    await page.locator('#status-B', { hasText: 'holds the lock, token 3' }).waitFor();
    expect(await page.locator('#status-A').textContent()).toBe('killed');
    await page.locator('#play', { hasText: 'Let time run' }).waitFor();
    await page.locator('#back', { hasText: 'Undo' }).click();
    await page.locator('#status-A', { hasText: 'holds the lock, token 2' }).waitFor();
    await page.goto(URL_OF_PAGE + queued);
    await page.locator('#status-B', { hasText: 'waits, 1 ahead' }).waitFor();
    expect(new URL(page.url()).hash).toBe(queued);
    expect(problems).toEqual([]);
  });

  test('leaves a story to act, and returns to it', async ({ skip }) => {
    const { page, is } = await opened(skip, '#story/leader-dies/2');
    await page.locator('#try').click();
    await is('#story/leader-dies/2/try');
    await page.locator('#break').click();
    await page.locator('#buttons-m0 button', { hasText: 'Kill' }).click();
    await page.locator('.member.killed').waitFor();
    await page.locator('#back').click();
    await page.locator('.member.killed').waitFor({ state: 'detached' });
    await page.locator('#stories a', { hasText: 'The leader dies' }).click();
    await is('#story/leader-dies/1');
  });

  test('opens a message to its bytes, sees frames on request, and hides a client', async ({ skip }) => {
    const { page } = await opened(skip, '#story/fair/2');
    const put = page.locator('details.step', { hasText: 'put my queue key' }).first();
    await put.locator('summary').click();
    await put.locator('td', { hasText: 'field 1, length-delimited: compare' }).first().waitFor();
    const settings = page.locator('.step.frame[data-client="A"]', { hasText: 'SETTINGS' }).first();
    expect(await settings.isVisible()).toBe(false);
    await page.locator('.filters summary').click();
    await page.locator('#show-frame').check();
    expect(await settings.isVisible()).toBe(true);
    await page.locator('#filters [data-client="A"]').uncheck();
    expect(await settings.isVisible()).toBe(false);
  });

  test('can use the page in the dark and without a mouse', async ({ skip }) => {
    const { page, is } = await opened(skip, '#try/1');
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.locator('#act-lock').focus();
    await page.keyboard.press('Enter');
    await page.locator('#status-A', { hasText: 'holds the lock' }).waitFor();
    // The focus stays on the button that replaces the pressed one.
    expect(await page.evaluate('document.activeElement?.closest("#actions") !== null')).toBe(true);
    await page.locator('#stories a').first().focus();
    await page.keyboard.press('Enter');
    await is('#story/fair/1');
  });
});
