import type { Fetch } from '../../src/gateway.js';

/**
 * How `ResendingFetch` sends the two copies of each POST, and which response arrives.
 *
 * - `at once`: The response to the first copy is lost. The second copy follows, and its response arrives.
 * - `after another write`: Like `at once`, with `meanwhile` between the two copies.
 * - `both at a time`: The copies are sent concurrently. The response to the second copy arrives.
 * - `late`: The response to the first copy arrives. `sendLate` sends the second copy. A watch has no second copy.
 */
export type Resending = 'at once' | 'after another write' | 'both at a time' | 'late';

export const RESENDINGS: readonly Resending[] = ['at once', 'after another write', 'both at a time', 'late'];

/**
 * A `fetch` that sends a request twice if `resends` selects it, like a runtime that repeats a request after its
 * connection was reset.
 */
export class ResendingFetch {
  readonly #how: Resending;
  readonly #late: (() => Promise<unknown>)[] = [];
  /** Runs between the two copies of a request that contains `key`. */
  meanwhile: () => Promise<unknown> = async () => {};
  key: string | undefined;
  /** Selects the requests that are sent twice. */
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

  /** Sends the pending second copies in order. */
  async sendLate(): Promise<void> {
    for (const send of this.#late.splice(0)) await send();
  }
}

/** Sends a request and waits until the server has processed it. For a stream, waits only for the response headers. */
async function answered(url: string, init: RequestInit): Promise<void> {
  const response = await fetch(url, init);
  if (/\/v3\/watch$/.test(url)) await response.body?.cancel();
  else await response.text();
}
