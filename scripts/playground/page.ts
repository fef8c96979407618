import { bodyOf, escapeHtml } from '../../src/cli/trace/body.js';
import { ACTIONS, cardOf, statusOf } from './client-card.js';
import { leasesHtml, queueHtml, storeHtml } from './panels.js';
import type { PlayClient } from './play-client.js';
import { MAX_STEPS, Playground, type Step } from './playground.js';
import { playStory, STORIES, type Story } from './stories.js';
import { LANES, stepHtml } from './trace-rows.js';

// The page of the playground: it shows the state of a Playground, and lets the visitor act on it.

/** Longest real time in milliseconds that one frame of the page may add to the simulated time. */
const MAX_FRAME_MS = 200;
/** Simulated time in milliseconds of one step when a story is skipped to its end. */
const SKIP_MS = 250;
/** The trace scrolls to new rows if the visitor has scrolled to less than this number of pixels from its end. */
const FOLLOW_PX = 40;

/** The page with its playground, which a story or the visitor replaces. */
class Page {
  readonly #startTask: (task: () => void) => void;
  #playground: Playground;
  #isRunning = true;
  #speed = 1;
  #lastFrame = performance.now();
  #isAdvancing = false;
  /** The story that plays. While a story plays, the visitor cannot act on the clients. */
  #story: Story | undefined;
  /** Goes on to the next sentence of the story. */
  #hurry: () => void = () => {};
  #shownStep = 0;
  /** Whether the trace scrolls to its end when it grows. */
  #follows = true;
  /** What each element shows, so that the page changes only what differs. */
  readonly #shown = new Map<Element, string>();

  constructor() {
    this.#startTask = taskStarter();
    this.#playground = new Playground(this.#startTask);
    const stories = STORIES.map(({ id, title }) => `<button type="button" data-story="${id}">${title}</button>`);
    element('stories').innerHTML = stories.join('');
    const names = Object.entries(LANES).map(([name, at]) => `<b style="left:${at}%">${name}</b>`);
    element('lanes').innerHTML = `<span></span><span class="lane">${names.join('')}</span>`;
    element('filters').innerHTML = this.#playground.clients
      .map(({ name }) => `<label><input type="checkbox" data-client="${name}" checked> ${name}</label>`)
      .join(' ');
    element('clients').innerHTML = this.#playground.clients.map(cardOf).join('');
    document.addEventListener('click', (event) => this.#onClick(event.target as Element));
    document.addEventListener('change', (event) => this.#onChange(event.target as HTMLInputElement));
    // The page renders the body of a row only when the visitor opens the row, because a trace has thousands of bytes.
    document.addEventListener('toggle', (event) => this.#onToggle(event.target as HTMLDetailsElement), true);
    const report = (problem: unknown): void => void this.#playground.world.unhandled.push(problem);
    window.addEventListener('error', ({ error }) => report(error));
    window.addEventListener('unhandledrejection', ({ reason }) => report(reason));
    const scroller = element('scroller');
    scroller.addEventListener('scroll', () => {
      this.#follows = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < FOLLOW_PX;
    });
    new ResizeObserver(() => this.#scrollToEnd()).observe(scroller);
    this.#frame();
  }

  #onClick(target: Element): void {
    const button = target.closest('button');
    if (button === null) return;
    const { story, client, action, ahead } = button.dataset;
    if (story !== undefined) this.#play(STORIES.find(({ id }) => id === story) as Story);
    else if (client !== undefined) {
      const found = this.#playground.clients.find(({ name }) => name === client) as PlayClient;
      ACTIONS.find(({ id }) => id === action)?.act(found);
    } else if (ahead !== undefined) void this.#playground.advance(Number(ahead));
    else if (button.id === 'run') this.#isRunning = !this.#isRunning;
    else if (button.id === 'compact') this.#playground.compact();
    else if (button.id === 'next') this.#hurry();
    else if (button.id === 'skip') void this.#skip();
    else if (button.id === 'reset') this.#reset();
  }

  #onChange({ id, value, checked, dataset }: HTMLInputElement): void {
    if (id === 'speed') this.#speed = Number(value);
    else if (id.startsWith('show-')) document.querySelector('.trace')?.classList.toggle(id, checked);
    else if (dataset.client !== undefined)
      for (const row of document.querySelectorAll(`.step[data-client="${dataset.client}"]`))
        row.classList.toggle('filtered', !checked);
    this.#scrollToEnd();
  }

  #onToggle(row: HTMLDetailsElement): void {
    const body = row.querySelector('.body');
    if (!row.open || body === null || body.innerHTML !== '') return;
    const step = this.#playground.steps.find(({ id }) => String(id) === row.dataset.step);
    body.innerHTML =
      step === undefined ? 'The playground has forgotten this message.' : bodyOf(step, this.#playground.startMs);
  }

  /** Replaces the playground with a new one. */
  #reset(): void {
    this.#playground.close();
    this.#playground = new Playground(this.#startTask);
    this.#story = undefined;
    this.#shownStep = 0;
    this.#follows = true;
    element('steps').replaceChildren();
    element('story').hidden = true;
    element('current').hidden = true;
  }

  #play(story: Story): void {
    this.#reset();
    this.#story = story;
    this.#isRunning = true;
    const playground = this.#playground;
    const [outcome, sentences, current] = [element('outcome'), element('sentences'), element('current')];
    element('story').hidden = false;
    for (const id of ['next', 'skip']) element(id).hidden = false;
    element('question').textContent = story.question;
    sentences.replaceChildren();
    outcome.textContent = 'The buttons of the clients work again when the story ends.';
    outcome.className = '';
    const tell = (sentence: string): void => {
      if (this.#playground !== playground) return;
      const item = document.createElement('li');
      item.textContent = sentence;
      sentences.append(item);
      sentences.scrollTop = sentences.scrollHeight;
      current.textContent = sentence;
      current.hidden = false;
    };
    const end = (text: string, state: string): void => {
      if (this.#playground !== playground) return;
      this.#story = undefined;
      outcome.textContent = text;
      outcome.className = state;
      // The buttons disappear, and the focus must not be lost with them.
      if (document.activeElement instanceof HTMLElement && ['next', 'skip'].includes(document.activeElement.id))
        outcome.focus();
      for (const id of ['next', 'skip']) element(id).hidden = true;
    };
    const { ended, hurry } = playStory(story, playground, tell);
    this.#hurry = hurry;
    ended.then(
      () => end('The story has ended. Go on from here with the buttons.', 'done'),
      (error: Error) => end(error.message, 'failed'),
    );
  }

  async #skip(): Promise<void> {
    const playground = this.#playground;
    while (this.#story !== undefined && this.#playground === playground) {
      this.#hurry();
      await playground.advance(SKIP_MS);
    }
  }

  #frame(): void {
    const now = performance.now();
    const realMs = Math.min(now - this.#lastFrame, MAX_FRAME_MS);
    this.#lastFrame = now;
    if (this.#isRunning && !this.#isAdvancing) {
      this.#isAdvancing = true;
      void this.#playground.advance(realMs * this.#speed).then(() => {
        this.#isAdvancing = false;
      });
    }
    this.#render();
    requestAnimationFrame(() => this.#frame());
  }

  #render(): void {
    const { nowMs, world } = this.#playground;
    this.#show('run', this.#isRunning ? 'Stop time' : 'Let time run');
    const stopped = this.#isRunning ? '' : ' (stopped)';
    this.#show('clock', `Time: ${(nowMs / 1_000).toFixed(1)} s${stopped}`);
    (element('compact') as HTMLButtonElement).disabled = this.#story !== undefined;
    document.querySelector('main')?.classList.toggle('playing', this.#story !== undefined);
    for (const { id } of STORIES)
      document.querySelector(`[data-story="${id}"]`)?.setAttribute('aria-pressed', String(this.#story?.id === id));
    for (const client of this.#playground.clients) this.#renderClient(client);
    this.#renderSteps();
    this.#show('queue', queueHtml(this.#playground));
    this.#show('leases', leasesHtml(this.#playground));
    this.#show('store', storeHtml(this.#playground));
    const [problem] = world.unhandled;
    element('banner').hidden = problem === undefined;
    if (problem !== undefined) this.#show('banner', `A defect of the playground: ${escapeHtml(String(problem))}`);
  }

  #renderClient(client: PlayClient): void {
    const { name, app } = client;
    const [status, kind] = statusOf(client, this.#playground);
    this.#show(`status-${name}`, `<span class="status ${kind}">${status}</span>`);
    const lines = app.log.map(
      (line) =>
        `<li class="${line.kind}"><time>${(line.atMs / 1_000).toFixed(1)} s</time>${escapeHtml(line.text)}</li>`,
    );
    const log = element(`log-${name}`);
    if (this.#show(log.id, lines.join(''))) log.scrollTop = log.scrollHeight;
    for (const { id, label, isEnabled, isPressed } of ACTIONS) {
      const button = element(`${id}-${name}`) as HTMLButtonElement;
      this.#show(button.id, label(client));
      button.disabled = this.#story !== undefined || !isEnabled(client);
      if (isPressed !== undefined) button.setAttribute('aria-pressed', String(isPressed(client)));
    }
  }

  #renderSteps(): void {
    const { steps } = this.#playground;
    const added = steps.filter(({ id }) => id > this.#shownStep);
    if (added.length === 0) return;
    this.#shownStep = (added.at(-1) as Step).id;
    const rows = element('steps');
    rows.insertAdjacentHTML('beforeend', added.map((step) => stepHtml(step, this.#isFiltered(step))).join(''));
    for (const kind of ['.minor', '.step:not(.minor)']) {
      const alike = rows.querySelectorAll(`:scope > ${kind}`);
      for (let index = 0; index < alike.length - MAX_STEPS; index += 1) alike[index]?.remove();
    }
    this.#scrollToEnd();
  }

  /** Scrolls to the end of the trace, unless the visitor looks at an earlier part. */
  #scrollToEnd(): void {
    const scroller = element('scroller');
    if (this.#follows) scroller.scrollTop = scroller.scrollHeight;
  }

  #isFiltered({ client }: Step): boolean {
    const box = document.querySelector<HTMLInputElement>(`#filters [data-client="${client}"]`);
    return box !== null && !box.checked;
  }

  /** Returns whether the element has changed. */
  #show(id: string, html: string): boolean {
    const target = element(id);
    if (this.#shown.get(target) === html) return false;
    this.#shown.set(target, html);
    target.innerHTML = html;
    return true;
  }
}

function element(id: string): HTMLElement {
  return document.getElementById(id) as HTMLElement;
}

/** Returns a function that runs each function in a separate task. `setTimeout` would wait 4 ms for each. */
function taskStarter(): (task: () => void) => void {
  const { port1, port2 } = new MessageChannel();
  const tasks: (() => void)[] = [];
  port1.onmessage = () => tasks.shift()?.();
  return (task) => {
    tasks.push(task);
    port2.postMessage(undefined);
  };
}

new Page();
