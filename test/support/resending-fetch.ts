import type { Fetch } from '../../src/transport/gateway/index.js';

/**
 * What becomes of the two copies of each POST.
 *
 * - `at once`: The answer to the first is lost; the second follows and is answered.
 * - `after another write`: The same, with `meanwhile` between the two.
 * - `both at a time`: The copies race; the answer to the second arrives.
 * - `late`: The first is answered; the second waits for `sendLate`.
 */
export type Resending = 'at once' | 'after another write' | 'both at a time' | 'late';

export const RESENDINGS: readonly Resending[] = ['at once', 'after another write', 'both at a time', 'late'];

/** A `fetch` that sends each POST twice, as hosts do whose connections are reset. */
export class ResendingFetch {
  readonly #how: Resending;
  readonly #late: (() => Promise<unknown>)[] = [];
  /** Happens between the two copies of a request that names `key`. */
  meanwhile: () => Promise<unknown> = async () => {};
  key: string | undefined;
  /** Which requests are sent twice. */
  resends: (url: string) => boolean = () => true;

  constructor(how: Resending) {
    this.#how = how;
  }

  readonly fetch: Fetch = async (url, init) => {
    if (!this.resends(url)) return fetch(url, init);
    const first = (): Promise<unknown> => answered(url, { ...init, signal: null });
    const second = (): Promise<Response> => fetch(url, init);
    switch (this.#how) {
      case 'at once':
        await first();
        return second();
      case 'after another write':
        await first();
        if (this.key !== undefined && String(init.body).includes(`"${btoa(this.key)}"`)) await this.meanwhile();
        return second();
      case 'both at a time': {
        const [, response] = await Promise.all([first(), second()]);
        return response;
      }
      case 'late':
        if (!/\/v3\/watch$/.test(url)) this.#late.push(() => answered(url, { ...init, signal: null }));
        return fetch(url, init);
    }
  };

  /** Sends the second copies that wait, in order. */
  async sendLate(): Promise<void> {
    for (const send of this.#late.splice(0)) await send();
  }
}

/** The server has done what it was asked. Of a stream the beginning is enough. */
async function answered(url: string, init: RequestInit): Promise<void> {
  const response = await fetch(url, init);
  if (/\/v3\/watch$/.test(url)) await response.body?.cancel();
  else await response.text();
}
