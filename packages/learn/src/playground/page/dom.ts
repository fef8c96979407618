/** Returns the element of the page with an ID. */
export function element(id: string): HTMLElement {
  return document.getElementById(id) as HTMLElement;
}

/** Changes the content of elements, but only of those whose content differs. */
export class Screen {
  /** What each element shows. */
  readonly #shown = new Map<Element, string>();

  /** Returns whether the element has changed. Keeps the focus on the button that had it. */
  show(id: string, html: string): boolean {
    const target = element(id);
    if (this.#shown.get(target) === html) return false;
    const focused = target.contains(document.activeElement) ? selectorOf(document.activeElement) : undefined;
    this.#shown.set(target, html);
    target.innerHTML = html;
    if (focused !== undefined) (target.querySelector<HTMLElement>(focused) ?? target.querySelector('button'))?.focus();
    return true;
  }

  /** Shows a text, and reads it aloud if the element is a live region. */
  text(id: string, text: string): void {
    const target = element(id);
    if (target.textContent !== text) target.textContent = text;
  }
}

function selectorOf(focused: Element | null): string | undefined {
  if (!(focused instanceof HTMLElement)) return undefined;
  if (focused.id !== '') return `#${focused.id}`;
  const { act, choose } = focused.dataset;
  if (act !== undefined) return `[data-act="${act}"]`;
  if (choose !== undefined) return `[data-choose="${choose}"]`;
  return focused instanceof HTMLAnchorElement ? `a[href="${focused.getAttribute('href')}"]` : undefined;
}

/** Returns a function that runs each function in a separate task. `setTimeout` would wait 4 ms for each. */
export function taskStarter(): (task: () => void) => void {
  const { port1, port2 } = new MessageChannel();
  const tasks: (() => void)[] = [];
  port1.onmessage = () => tasks.shift()?.();
  return (task) => {
    tasks.push(task);
    port2.postMessage(undefined);
  };
}
