import { escapeHtml } from '../../../../cli/src/index.js';
import type { Playground } from '../playground.js';
import { changeOf, revisionsOf, storeHtml } from '../store-panel.js';
import { element, type Screen } from './dom.js';

/** The panel of the store, with its choice of the member and of the revision. */
export class StoreView {
  readonly #screen: Screen;
  /** The member that the visitor has chosen. Undefined: the member that a client has called last. */
  #chosen: number | undefined;
  #shown = 0;
  /** The revision that the visitor has chosen. Undefined: the latest one. */
  #revision: number | undefined;

  constructor(screen: Screen) {
    this.#screen = screen;
    element('revision').addEventListener('input', ({ target }) => {
      const { value, max } = target as HTMLInputElement;
      this.#revision = value === max ? undefined : Number(value);
    });
  }

  /** Shows the member that a client has called last, and its latest revision, again. */
  reset(): void {
    this.#chosen = undefined;
    this.#revision = undefined;
  }

  chooseMember(index: number): void {
    this.#chosen = index;
    this.#revision = undefined;
  }

  render(playground: Playground): void {
    const { members } = playground.server;
    const member = this.#chosen ?? members.indexOf(playground.calledMember);
    if (member !== this.#shown) this.#revision = undefined;
    this.#shown = member;
    const { first, last } = revisionsOf(playground, member);
    if (this.#revision !== undefined && (this.#revision >= last || this.#revision < first)) this.#revision = undefined;
    const slider = element('revision') as HTMLInputElement;
    const shown = this.#revision ?? last;
    for (const [name, value] of [
      ['min', first],
      ['max', last],
    ] as const)
      if (slider[name] !== String(value)) slider[name] = String(value);
    if (slider.value !== String(shown)) slider.value = String(shown);
    slider.disabled = first === last;
    const label = `${shown} of ${last}${shown === last ? ', now' : ''}`;
    this.#screen.text('revision-shown', label);
    slider.setAttribute('aria-valuetext', `${label}. ${changeOf(playground, member, this.#revision)}`);
    this.#screen.show('change', escapeHtml(changeOf(playground, member, this.#revision)));
    this.#screen.show('store', storeHtml(playground, member, this.#revision));
    element('store-panel').classList.toggle('past', this.#revision !== undefined);
    const choice = members.map(
      ({ name }, index) =>
        `<button type="button" data-member="${index}" aria-pressed="${index === member}">of ${name}</button>`,
    );
    this.#screen.show('store-of', members.length === 1 ? '' : choice.join(''));
  }
}
