import { bodyOf, escapeHtml } from '../../../../cli/src/index.js';
import { MAX_STEPS, type Playground, type Step } from '../playground.js';
import { laneNames, stepHtml } from '../trace-rows.js';
import type { Visit } from '../visit.js';
import { element, type Screen } from './dom.js';

/** The trace scrolls to new rows if the visitor has scrolled to less than this number of pixels from its end. */
const FOLLOW_PX = 40;

/** The panel of the messages: one row for each step, below the sentence of its scene. */
export class TraceView {
  readonly #screen: Screen;
  #playground: Playground | undefined;
  #shownStep = 0;
  #shownScene = 0;
  /** The step that the caption shows. */
  #presentStep: number | undefined;
  /** Whether the trace scrolls to its end when it grows. */
  #follows = true;

  constructor(screen: Screen) {
    this.#screen = screen;
    const scroller = element('scroller');
    scroller.addEventListener('scroll', () => {
      this.#follows = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < FOLLOW_PX;
    });
    new ResizeObserver(() => this.#scrollToEnd()).observe(scroller);
    // The page renders the body of a row only when the visitor opens the row, because a trace has thousands of bytes.
    element('steps').addEventListener('toggle', (event) => this.#onToggle(event.target as HTMLDetailsElement), true);
    element('trace-panel').addEventListener('change', ({ target }) => this.#onFilter(target as HTMLInputElement));
  }

  /** Shows the steps that are new, and starts with an empty trace if the visit has changed. */
  render({ playground, player, presentStep }: Visit): void {
    if (playground !== this.#playground) this.#start(playground);
    this.#append(playground, player?.told ?? []);
    if (presentStep?.id === this.#presentStep) return;
    this.#presentStep = presentStep?.id;
    document.querySelector('.step.present')?.classList.remove('present');
    document.querySelector(`.step[data-step="${presentStep?.id}"]`)?.classList.add('present');
  }

  #append(playground: Playground, told: readonly string[]): void {
    const added = playground.steps.filter(({ id }) => id > this.#shownStep);
    if (added.length === 0) return;
    this.#shownStep = (added.at(-1) as Step).id;
    const rows = element('steps');
    const html = added.map((step) => {
      const isNew = step.scene !== this.#shownScene;
      this.#shownScene = step.scene;
      const sentence = step.scene === 0 ? 'Your own actions' : (told[step.scene - 1] ?? '');
      const heading = isNew ? `<p class="scene">${escapeHtml(sentence)}</p>` : '';
      return heading + stepHtml(step, playground.lanes, this.#isFiltered(step));
    });
    rows.insertAdjacentHTML('beforeend', html.join(''));
    for (const kind of ['.minor', '.step:not(.minor)']) {
      const alike = rows.querySelectorAll(`:scope > ${kind}`);
      for (let index = 0; index < alike.length - MAX_STEPS; index += 1) alike[index]?.remove();
    }
    this.#scrollToEnd();
  }

  #start(playground: Playground): void {
    this.#playground = playground;
    this.#shownStep = 0;
    this.#shownScene = 0;
    this.#presentStep = undefined;
    this.#follows = true;
    element('steps').replaceChildren();
    this.#screen.show('lanes', `<span></span><span class="lane">${laneNames(playground.lanes)}</span>`);
    const boxes = playground.clients.map(
      ({ name }) => `<label><input type="checkbox" data-client="${name}" checked> ${name}</label>`,
    );
    this.#screen.show('filters', boxes.join(' '));
  }

  #onToggle(row: HTMLDetailsElement): void {
    const body = row.querySelector('.body');
    if (!row.open || body === null || body.innerHTML !== '' || this.#playground === undefined) return;
    const step = this.#playground.steps.find(({ id }) => String(id) === row.dataset.step);
    body.innerHTML =
      step === undefined ? 'The playground has forgotten this message.' : bodyOf(step, this.#playground.startMs);
  }

  #onFilter({ id, checked, dataset }: HTMLInputElement): void {
    if (id.startsWith('show-')) element('trace-panel').classList.toggle(id, checked);
    if (dataset.client !== undefined)
      for (const row of document.querySelectorAll(`.step[data-client="${dataset.client}"]`))
        row.classList.toggle('filtered', !checked);
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
}
