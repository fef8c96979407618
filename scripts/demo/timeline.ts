const COLORS = ['\u001b[36m', '\u001b[33m', '\u001b[35m', '\u001b[32m'] as const;
const [BOLD, DIM, RESET] = ['\u001b[1m', '\u001b[2m', '\u001b[0m'] as const;

/** Prints events with their time and their revision in etcd. Uses colors only on a terminal. */
export class Timeline {
  readonly #start = performance.now();
  readonly #actors: string[] = [];
  readonly #color = process.stdout.isTTY && !process.env.NO_COLOR;

  title(text: string): void {
    process.stdout.write(`\n${this.#paint(BOLD, text)}\n`);
  }

  plain(text: string): void {
    process.stdout.write(`  ${text}\n`);
  }

  line(actor: string, text: string, revision?: bigint): void {
    const seconds = ((performance.now() - this.#start) / 1000).toFixed(2).padStart(6);
    const at = (revision === undefined ? '' : `rev ${revision}`).padEnd(8);
    if (!this.#actors.includes(actor)) this.#actors.push(actor);
    const color = COLORS[this.#actors.indexOf(actor) % COLORS.length] as string;
    process.stdout.write(`${this.#paint(DIM, `${seconds}s  ${at}`)}  ${this.#paint(color, actor.padEnd(8))} ${text}\n`);
  }

  #paint(style: string, text: string): string {
    return this.#color ? `${style}${text}${RESET}` : text;
  }
}
