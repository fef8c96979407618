import { escapeHtml } from '../../../../cli/src/index.js';
import { type Address, addressOf, fragmentOf } from '../address.js';
import { dotsHtml, figureHtml, meaningHtml, sentenceOf, spokenOf } from '../caption.js';
import { actionsHtml, cardsHtml, logHtml } from '../client-cards.js';
import { memberButtons, memberCards, memberClass, memberInfo } from '../members-panel.js';
import { Player } from '../player.js';
import { STORIES, STORY_GROUPS } from '../stories.js';
import type { Visit } from '../visit.js';
import { element, Screen, taskStarter } from './dom.js';
import { StoreView } from './store-view.js';
import { TraceView } from './trace-view.js';

// The page of the playground: it shows the state of a visit, lets the visitor act on it, and keeps the address of the
// page equal to the address of the state.

const FIRST_STORY = `#story/${STORIES[0]?.id}`;
const TRY = '#try/1';
const TABS = ['store', 'trace', 'log'] as const;

class Page {
  readonly #screen = new Screen();
  readonly #store = new StoreView(this.#screen);
  readonly #trace = new TraceView(this.#screen);
  readonly #player = new Player(taskStarter(), (how) => this.#setAddress(how));
  #lastFrame = performance.now();
  /** The client that the buttons of the visitor belong to. */
  #chosen = 'A';
  #isBreaking = false;
  #shownVisit: Visit | undefined;
  /** Whether the fragment of the URL was not the address of a state. */
  #isLost = false;
  readonly #problems: unknown[] = [];

  constructor() {
    this.#screen.show('stories', navigationHtml());
    document.addEventListener('click', (event) => this.#onClick(event.target as Element));
    document.addEventListener('keydown', (event) => this.#onKey(event));
    element('pace').addEventListener('change', ({ target }) => {
      this.#player.pace = Number((target as HTMLSelectElement).value);
    });
    // The browser reports a change of the fragment, and the buttons Back and Forward, with these events.
    for (const event of ['hashchange', 'popstate']) window.addEventListener(event, () => this.#onAddress());
    const report = (problem: unknown): void => void this.#problems.push(problem);
    window.addEventListener('error', ({ error }) => report(error));
    window.addEventListener('unhandledrejection', ({ reason }) => report(reason));
    this.#chooseTab('store');
    void this.#open(location.hash === '' ? FIRST_STORY : location.hash, 'replace');
    this.#frame();
  }

  /** Opens the state of a fragment. A story without a state plays from its start. */
  async #open(fragment: string, how: 'push' | 'replace'): Promise<void> {
    const found = addressOf(fragment);
    this.#isLost = found === undefined;
    const address = found ?? (addressOf(FIRST_STORY) as Address);
    this.#toggleMenu(false);
    this.#store.reset();
    if (!(await this.#player.open(address))) return;
    const { start } = address;
    if (start.kind === 'story' && start.scene === 0 && address.untilMs === 0) {
      const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
      await this.#player.nextScene(isCalm ? 'scene' : 'story');
    } else this.#setAddress(how);
  }

  #onAddress(): void {
    if (location.hash !== this.#player.visit?.fragment) void this.#open(location.hash || FIRST_STORY, 'replace');
  }

  #setAddress(how: 'push' | 'replace'): void {
    const fragment = this.#player.visit?.fragment;
    if (fragment === undefined || fragment === location.hash) return;
    if (how === 'push') history.pushState(null, '', fragment);
    else history.replaceState(null, '', fragment);
  }

  #onClick(target: Element): void {
    const button = target.closest('button');
    const { visit } = this.#player;
    if (button === null || visit === undefined) return;
    const { act, choose, ahead, member } = button.dataset;
    if (act !== undefined) this.#player.act(act);
    else if (choose !== undefined) this.#chosen = choose;
    else if (ahead !== undefined) this.#letPass(Number(ahead));
    else if (member !== undefined) this.#store.chooseMember(Number(member));
    else if (button.id === 'back') this.#back(visit);
    else if (button.id === 'play') this.#play(visit);
    else if (button.id === 'next') this.#next(visit);
    else if (button.id === 'next-story') void this.#open(storyAfter(visit).fragment, 'push');
    else if (button.id === 'try') this.#leaveStory(visit);
    else if (button.id === 'break') this.#isBreaking = !this.#isBreaking;
    else if (button.id === 'menu') this.#toggleMenu(button.getAttribute('aria-expanded') === 'false');
    else if (button.id.startsWith('tab-')) this.#chooseTab(button.id.slice('tab-'.length));
  }

  #onKey({ key, target, ctrlKey, metaKey, altKey }: KeyboardEvent): void {
    const { visit } = this.#player;
    const isField = target instanceof Element && target.closest('input, select, summary') !== null;
    if (visit === undefined || isField || ctrlKey || metaKey || altKey) return;
    if (key === 'ArrowRight') this.#next(visit);
    else if (key === 'ArrowLeft') this.#back(visit);
    else if (key === ' ' && target === document.body) this.#play(visit);
  }

  /** Shows the scene before, or the state before the last action. */
  #back(visit: Visit): void {
    const before = addressBefore(visit);
    if (before !== undefined) void this.#open(before, 'push');
  }

  #next(visit: Visit): void {
    if (visit.player === undefined || visit.isOwn) this.#letPass(1_000);
    else if (!visit.player.isOver) void this.#player.nextScene('scene');
  }

  #play(visit: Visit): void {
    if (this.#player.goal !== 'nothing') {
      this.#player.goal = 'nothing';
      this.#setAddress('replace');
    } else if (visit.player === undefined || visit.isOwn) this.#player.goal = 'forever';
    else if (visit.player.isOver) void this.#open(`#story/${visit.player.story.id}`, 'push');
    else if (visit.player.isResting) void this.#player.nextScene('story');
    else this.#player.goal = 'story';
  }

  #leaveStory(visit: Visit): void {
    this.#player.goal = 'nothing';
    visit.leaveStory();
    this.#setAddress('push');
    this.#render();
    document.querySelector<HTMLElement>('#actions button')?.focus();
  }

  #letPass(ms: number): void {
    const { visit } = this.#player;
    if (visit !== undefined) this.#player.goal = { untilMs: visit.playground.nowMs + ms };
  }

  /** Shows or hides the stories on a phone. */
  #toggleMenu(isOpen: boolean): void {
    element('nav').classList.toggle('open', isOpen);
    element('menu').setAttribute('aria-expanded', String(isOpen));
  }

  #chooseTab(chosen: string): void {
    for (const tab of TABS) {
      element(`tab-${tab}`).setAttribute('aria-pressed', String(tab === chosen));
      element(`${tab}-panel`).classList.toggle('chosen', tab === chosen);
    }
  }

  #frame(): void {
    const now = performance.now();
    this.#player.frame(now - this.#lastFrame);
    this.#lastFrame = now;
    this.#render();
    requestAnimationFrame(() => this.#frame());
  }

  #render(): void {
    const { visit } = this.#player;
    if (visit === undefined) return;
    const { playground } = visit;
    if (visit !== this.#shownVisit) {
      this.#shownVisit = visit;
      element('members').hidden = !playground.isCluster;
      this.#screen.show('members', memberCards(playground));
      document.body.classList.toggle('cluster', playground.isCluster);
    }
    this.#renderCaption(visit);
    this.#trace.render(visit);
    this.#store.render(playground);
    this.#screen.show('clients', cardsHtml(playground, visit.isOwn ? this.#chosen : undefined));
    if (this.#screen.show('log', logHtml(playground))) element('log').scrollTop = element('log').scrollHeight;
    if (playground.isCluster)
      for (const member of playground.server.members) {
        element(`member-${member.name}`).className = memberClass(member);
        this.#screen.show(`info-${member.name}`, memberInfo(member));
        this.#screen.show(`buttons-${member.name}`, memberButtons(member));
      }
    const [problem] = [visit.player?.failure, ...this.#problems, ...playground.world.unhandled].filter(Boolean);
    const lost = this.#isLost ? 'The address of this page leads to no state, so the first story plays.' : '';
    const banner = problem === undefined ? lost : `A defect of the playground: ${String(problem)}`;
    element('banner').hidden = banner === '';
    this.#screen.show('banner', escapeHtml(banner));
  }

  #renderCaption(visit: Visit): void {
    const { playground, player } = visit;
    const { isOwn } = visit;
    const isMoving = this.#player.goal !== 'nothing';
    const story = player?.story;
    const members = playground.isCluster ? 'three members' : 'one member';
    this.#screen.text('title', story?.title ?? `Try it yourself: ${members}`);
    this.#screen.text('question', story?.question ?? '');
    const step = `Step ${player?.scene ?? 0} of ${story?.scenes.length ?? 0}`;
    this.#screen.text('count', story === undefined ? '' : isOwn ? `after step ${player?.scene ?? 0}` : step);
    this.#screen.text('sentence', sentenceOf(visit));
    const { presentStep } = visit;
    this.#screen.show('figure', figureHtml(presentStep, playground.lanes));
    this.#screen.show('meaning', meaningHtml(presentStep));
    // A screen reader reads the step that explains the state, and not each message on the way to it.
    if (!isMoving && presentStep !== undefined) this.#screen.text('spoken', spokenOf(presentStep));
    this.#screen.show('dots', isOwn ? '' : dotsHtml(visit));
    this.#screen.text('clock', `${(playground.nowMs / 1_000).toFixed(1)} s`);
    this.#screen.text('back', isOwn ? '‹ Undo' : '‹ Back');
    this.#screen.text('play', playLabel(visit, isMoving));
    this.#screen.text('next', isOwn ? '+1 s' : 'Next ›');
    (element('back') as HTMLButtonElement).disabled = addressBefore(visit) === undefined;
    const isOver = !isOwn && player?.isOver === true;
    (element('next') as HTMLButtonElement).disabled = isOver;
    // A button in another place, so that a second press of "Next" does not leave the end of the story.
    element('next-story').hidden = !isOver;
    this.#screen.show('next-story', isOver ? `Next story<span>: ${escapeHtml(storyAfter(visit).title)}</span> ›` : '');
    element('later').hidden = !isOwn;
    element('try').hidden = isOwn || player?.isResting === false;
    element('actions').hidden = !isOwn;
    document.body.classList.toggle('free', isOwn);
    document.body.classList.toggle('breaking', isOwn && this.#isBreaking);
    this.#screen.show('actions', isOwn ? actionsHtml(playground, this.#chosen, this.#isBreaking) : '');
    for (const link of document.querySelectorAll('#stories a')) {
      const isCurrent =
        link.getAttribute('href') === (story === undefined ? location.hash.slice(0, 6) : `#story/${story.id}`);
      if (isCurrent) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
  }
}

/** Returns the title and the fragment of the story after the present one, or of the mode without a story. */
function storyAfter({ player }: Visit): { readonly title: string; readonly fragment: string } {
  const story = STORIES[STORIES.findIndex(({ id }) => id === player?.story.id) + 1];
  return story === undefined
    ? { title: 'Try it yourself', fragment: TRY }
    : { title: story.title, fragment: `#story/${story.id}` };
}

/** Returns the fragment of the state before: of the scene before, or without the last action of the visitor. */
function addressBefore(visit: Visit): string | undefined {
  const { start, actions, untilMs } = visit.address;
  const last = actions.at(-1);
  if (last !== undefined) return fragmentOf({ start, actions: actions.slice(0, -1), untilMs: last.atMs });
  if (untilMs > 0) return fragmentOf({ start, actions, untilMs: 0 });
  if (start.kind === 'try') return undefined;
  if (start.isOwn) return fragmentOf({ start: { ...start, isOwn: false }, actions, untilMs: 0 });
  return start.scene > 1 ? `#story/${start.id}/${start.scene - 1}` : undefined;
}

function playLabel({ isOwn, player }: Visit, isMoving: boolean): string {
  if (isOwn) return isMoving ? 'Stop time' : 'Let time run';
  if (isMoving) return 'Pause';
  return player?.isOver ? 'Play again' : 'Play';
}

/** Renders the links to the stories and to the modes without a story. */
function navigationHtml(): string {
  const group = (title: string, links: readonly (readonly [href: string, title: string])[]): string =>
    `<section><h2>${title}</h2><ul>${links.map(([href, text]) => `<li><a href="${href}">${text}</a></li>`).join('')}</ul></section>`;
  const stories = STORY_GROUPS.map((each) =>
    group(
      each.title,
      each.stories.map(({ id, title }) => [`#story/${id}`, title] as const),
    ),
  );
  const own = group('Try it yourself', [
    [TRY, 'One member'],
    ['#try/3', 'Three members'],
  ]);
  return stories.join('') + own;
}

new Page();
