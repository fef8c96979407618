import { bodyOf, escapeHtml } from '../../src/cli/trace/page.js';
import { TTL_SECONDS } from './application.js';
import { type PlayClient, Playground, type Step } from './playground.js';
import { playStory, STORIES, type Story } from './stories.js';

// The page of the playground: it shows the state of a Playground, and lets the visitor act on it.

/** Longest real time in milliseconds that one frame of the page may add to the simulated time. */
const MAX_FRAME_MS = 200;
/** Simulated time in milliseconds of one step when a story is skipped to its end. */
const SKIP_MS = 250;
const BLOCK_MS = 8_000;
const SHOWN_LINES = 4;
const SHOWN_COMMITS = 14;
/** Rows of the trace that the page keeps. */
const MAX_ROWS = 600;
/** The x coordinates of the lanes of the clients and of etcd. */
const LANES = { A: 25, B: 75, C: 125, etcd: 175 } as const;
const ROW_HEIGHT = 30;

/** A button of a client. */
interface Action {
  readonly id: string;
  readonly title: string;
  readonly label: (client: PlayClient) => string;
  readonly act: (client: PlayClient) => void;
  /** Whether the button can be used while the client is dead. */
  readonly ofDead?: boolean;
}

const ACTIONS: readonly Action[] = [
  {
    id: 'lock',
    title: 'Takes the lock "jobs", or waits for it in the queue',
    label: () => 'Lock',
    act: ({ app }) => app.lock(),
  },
  {
    id: 'unlock',
    title: 'Releases the lock, or leaves the queue',
    label: () => 'Unlock',
    act: ({ app }) => app.unlock(),
  },
  {
    id: 'write',
    title: 'Writes the key "ledger". A client that took the lock writes with its fencing token',
    label: () => 'Write',
    act: ({ app }) => app.write(),
  },
  {
    id: 'watch',
    title: 'Watches the key "ledger"',
    label: ({ app }) => (app.isWatching ? 'Stop watching' : 'Watch'),
    act: ({ app }) => app.watch(),
  },
  {
    id: 'kill',
    title: 'Kills the process, or starts a new one',
    label: ({ isKilled }) => (isKilled ? 'Start again' : 'Kill'),
    act: (client) => (client.isKilled ? client.restart() : client.kill()),
    ofDead: true,
  },
  {
    id: 'pause',
    title: 'Stops the process, as SIGSTOP or a sleeping laptop does, or lets it continue',
    label: ({ isPaused }) => (isPaused ? 'Continue' : 'Pause'),
    act: (client) => (client.isPaused ? client.resume() : client.pause()),
  },
  {
    id: 'block',
    title: 'Keeps the event loop of the process busy for 8 s',
    label: () => 'Block the loop',
    act: (client) => client.block(BLOCK_MS),
  },
  {
    id: 'wire',
    title: 'Breaks the connection and refuses new ones, until the wire is mended',
    label: ({ isCut }) => (isCut ? 'Mend the wire' : 'Cut the wire'),
    act: (client) => (client.isCut ? client.mendWire() : client.cutWire()),
  },
  {
    id: 'lose',
    title: 'etcd applies the next write of this client, but the connection breaks before the answer arrives',
    label: () => 'Lose the next answer',
    act: (client) => client.loseAnswer(),
  },
];

/** The page with its playground, which a story or the visitor replaces. */
class Page {
  readonly #startTask: (task: () => void) => void;
  #playground: Playground;
  #isRunning = true;
  #speed = 1;
  #lastFrame = performance.now();
  #isAdvancing = false;
  /** The story that plays. The visitor cannot act on the clients meanwhile. */
  #story: Story | undefined;
  #shownStep = 0;
  /** What each element shows, so that the page changes only what differs. */
  readonly #shown = new Map<Element, string>();

  constructor() {
    this.#startTask = taskStarter();
    this.#playground = new Playground(this.#startTask);
    const stories = STORIES.map(({ id, title }) => `<button type="button" data-story="${id}">${title}</button>`);
    element('stories').innerHTML = stories.join('');
    const names = Object.entries(LANES).map(([name, x]) => `<span style="left:${x / 2}%">${name}</span>`);
    element('lanes').innerHTML = `<span></span><span>${names.join('')}</span>`;
    element('filters').innerHTML = this.#playground.clients
      .map(({ name }) => `<label><input type="checkbox" data-client="${name}" checked> ${name}</label>`)
      .join(' ');
    element('clients').innerHTML = this.#playground.clients.map(cardOf).join('');
    document.addEventListener('click', (event) => this.#onClick(event.target as Element));
    document.addEventListener('change', (event) => this.#onChange(event.target as HTMLInputElement));
    // A body is made when the visitor opens its row, because a trace has thousands of bytes.
    document.addEventListener('toggle', (event) => this.#onToggle(event.target as HTMLDetailsElement), true);
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
    else if (button.id === 'skip') void this.#skip();
    else if (button.id === 'reset') this.#reset();
  }

  #onChange({ id, value, checked, dataset }: HTMLInputElement): void {
    if (id === 'speed') this.#speed = Number(value);
    else if (id.startsWith('show-')) document.querySelector('.trace')?.classList.toggle(id, checked);
    else if (dataset.client !== undefined)
      for (const row of document.querySelectorAll(`.step[data-client="${dataset.client}"]`))
        row.classList.toggle('filtered', !checked);
  }

  #onToggle(row: HTMLDetailsElement): void {
    const body = row.querySelector('.body');
    if (!row.open || body === null || body.innerHTML !== '') return;
    const step = this.#playground.steps.find(({ id }) => String(id) === row.dataset.step);
    body.innerHTML =
      step === undefined ? 'The playground has forgotten this message.' : bodyOf(step, this.#playground.startMs);
  }

  /** Begins with a new world. */
  #reset(): void {
    this.#playground.close();
    this.#playground = new Playground(this.#startTask);
    this.#story = undefined;
    this.#shownStep = 0;
    element('steps').replaceChildren();
    element('story').hidden = true;
  }

  #play(story: Story): void {
    this.#reset();
    this.#story = story;
    this.#isRunning = true;
    const playground = this.#playground;
    const outcome = element('outcome');
    element('story').hidden = false;
    element('skip').hidden = false;
    element('question').textContent = story.question;
    element('sentences').replaceChildren();
    outcome.textContent = '';
    outcome.className = '';
    const tell = (sentence: string): void => {
      const item = document.createElement('li');
      item.textContent = sentence;
      element('sentences').append(item);
    };
    const end = (text: string, state: string): void => {
      if (this.#playground !== playground) return;
      this.#story = undefined;
      element('skip').hidden = true;
      outcome.textContent = text;
      outcome.className = state;
    };
    playStory(story, playground, tell).then(
      () => end('The story has ended. Go on from here with the buttons.', 'done'),
      (error: Error) => end(error.message, 'failed'),
    );
  }

  async #skip(): Promise<void> {
    const playground = this.#playground;
    while (this.#story !== undefined && this.#playground === playground) await playground.advance(SKIP_MS);
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
    this.#show('clock', `${(nowMs / 1_000).toFixed(1)} s`);
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
    const { name, app, isKilled } = client;
    const [status, kind] = statusOf(client, this.#playground);
    this.#show(`status-${name}`, `<span class="status ${kind}">${status}</span>`);
    const lines = app.log
      .slice(-SHOWN_LINES)
      .map(
        (line) =>
          `<li class="${line.kind}"><time>${(line.atMs / 1_000).toFixed(1)} s</time>${escapeHtml(line.text)}</li>`,
      );
    this.#show(`log-${name}`, lines.join(''));
    element(`card-${name}`).classList.toggle('dead', isKilled);
    for (const { id, label, ofDead = false } of ACTIONS) {
      const button = element(`${id}-${name}`) as HTMLButtonElement;
      this.#show(button.id, label(client));
      button.disabled = this.#story !== undefined || (isKilled && !ofDead);
    }
  }

  #renderSteps(): void {
    const { steps } = this.#playground;
    const added = steps.filter(({ id }) => id > this.#shownStep);
    if (added.length === 0) return;
    const scroller = element('scroller');
    const follows = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 2 * ROW_HEIGHT;
    this.#shownStep = (added.at(-1) as Step).id;
    const rows = element('steps');
    rows.insertAdjacentHTML('beforeend', added.map((step) => stepHtml(step, this.#isFiltered(step))).join(''));
    while (rows.childElementCount > MAX_ROWS) rows.firstElementChild?.remove();
    if (follows) scroller.scrollTop = scroller.scrollHeight;
  }

  #isFiltered({ client }: Step): boolean {
    const box = document.querySelector<HTMLInputElement>(`#filters [data-client="${client}"]`);
    return box !== null && !box.checked;
  }

  #show(id: string, html: string): void {
    const target = element(id);
    if (this.#shown.get(target) === html) return;
    this.#shown.set(target, html);
    target.innerHTML = html;
  }
}

function cardOf({ name }: PlayClient): string {
  const buttons = ACTIONS.map(
    ({ id, title }) =>
      `<button type="button" id="${id}-${name}" data-client="${name}" data-action="${id}" title="${escapeHtml(title)}"></button>`,
  );
  return `<section class="card" id="card-${name}" aria-label="Client ${name}"><h2><b>${name}</b><span id="status-${name}"></span></h2><div class="buttons">${buttons.join('')}</div><ul class="log" id="log-${name}"></ul></section>`;
}

/** What a client does at this moment, and how the page shows it. */
function statusOf(client: PlayClient, { queue }: Playground): readonly [text: string, kind: string] {
  const { app, name, isKilled, isPaused, isStalled, isCut } = client;
  if (isKilled) return ['killed', 'bad'];
  const notes = [
    ...(isPaused ? ['paused'] : isStalled ? ['blocked'] : []),
    ...(isCut ? ['wire cut'] : []),
    ...(app.isWatching ? ['watches'] : []),
  ];
  const after = notes.length === 0 ? '' : `, ${notes.join(', ')}`;
  if (app.token !== undefined) return [`holds the lock, token ${app.token}${after}`, isStalled ? 'bad' : 'holds'];
  const ahead = queue.findIndex((each) => each.client === name);
  if (app.isWaiting) return [`waits${ahead > 0 ? `, ${ahead} ahead` : ''}${after}`, ''];
  return [`idle${after}`, isStalled || isCut ? 'bad' : ''];
}

function queueHtml({ queue }: Playground): string {
  if (queue.length === 0) return '<p class="none">Nothing is in the queue: the lock is free.</p>';
  const items = queue.map(
    ({ client, key, createRevision }, index) =>
      `<li>${escapeHtml(client)} ${index === 0 ? 'holds the lock' : 'waits'}<small class="queued">${escapeHtml(key)}, create revision ${createRevision}</small></li>`,
  );
  return `<ol>${items.join('')}</ol>`;
}

function leasesHtml({ leases }: Playground): string {
  if (leases.length === 0) return '<p class="none">There is no lease.</p>';
  return leases
    .map(({ id, ttlSeconds, remainingSeconds, keys }) => {
      const percent = Math.round((100 * remainingSeconds) / ttlSeconds);
      const low = remainingSeconds <= TTL_SECONDS / 2 ? ' low' : '';
      const what = keys.length === 0 ? 'no keys' : keys.join(', ');
      return `<div class="lease">${id.toString(16)}: ${remainingSeconds} of ${ttlSeconds} s<div class="bar${low}"><i style="width:${percent}%"></i></div><small>${escapeHtml(what)}</small></div>`;
    })
    .join('');
}

function storeHtml({ commits, server }: Playground): string {
  if (commits.length === 0) return '<p class="none">The store is empty, at revision 1.</p>';
  const { compacted } = server.member.store;
  const rows = commits.slice(-SHOWN_COMMITS).flatMap(({ revision, atMs, changes }) =>
    changes.map(({ type, key, value }) => {
      const what = type === 'delete' ? '<td class="deleted">deleted</td>' : `<td>${escapeHtml(value)}</td>`;
      const isForgotten = revision < compacted ? ' class="compacted"' : '';
      return `<tr${isForgotten}><td>${revision}</td><td>${(atMs / 1_000).toFixed(1)} s</td><td>${escapeHtml(key)}</td>${what}</tr>`;
    }),
  );
  return `<table><tr><th>revision</th><th>time</th><th>key</th><th>value</th></tr>${rows.join('')}</table>`;
}

function stepHtml(step: Step, isFiltered: boolean): string {
  const { id, atMs, client, direction, label, protocol, kind, frame } = step;
  const words = `<span class="words">${escapeHtml(label)}${protocol === '' ? '' : `<small>${escapeHtml(protocol)}</small>`}</span>`;
  const row = `<span class="at">${(atMs / 1_000).toFixed(2)} s</span>${lanesOf(step)}${words}`;
  const attributes = `class="step ${kind} ${direction}${isFiltered ? ' filtered' : ''}" data-step="${id}" data-client="${client ?? 'etcd'}"`;
  if (frame === undefined) return `<div ${attributes}><div class="row">${row}</div></div>`;
  return `<details ${attributes}><summary class="row">${row}</summary><div class="body"></div></details>`;
}

function lanesOf({ client, direction }: Step): string {
  const middle = ROW_HEIGHT / 2;
  const lifelines = Object.values(LANES).map(
    (x) => `<line class="life" x1="${x}" x2="${x}" y1="0" y2="${ROW_HEIGHT}"/>`,
  );
  const own = LANES[(client ?? 'etcd') as keyof typeof LANES];
  if (direction === 'none') return svg(`${lifelines.join('')}<circle class="dot" cx="${own}" cy="${middle}" r="5"/>`);
  const [from, to] = direction === 'sent' ? [own, LANES.etcd] : [LANES.etcd, own];
  const tip = to > from ? -6 : 6;
  const path = `M${from},${middle}L${to},${middle}M${to + tip},${middle - 4}L${to},${middle}L${to + tip},${middle + 4}`;
  return svg(`${lifelines.join('')}<path class="arrow" d="${path}"/>`);
}

function svg(content: string): string {
  return `<svg viewBox="0 0 200 ${ROW_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">${content}</svg>`;
}

function element(id: string): HTMLElement {
  return document.getElementById(id) as HTMLElement;
}

/** Returns a function that runs functions in tasks of their own. `setTimeout` would wait 4 ms for each. */
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
