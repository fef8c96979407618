import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Fetch, gateway } from '../../../../src/gateway.js';
import { type Client, EtcdError, prefix } from '../../../../src/index.js';
import { stm } from '../../../../src/recipes.js';
import { openClient, unique } from '../../../support/client.js';
import { openGateway } from '../../../support/gateway.js';
import { iterations } from '../../../support/thorough.js';

// A simulated runtime resends requests in every possible way: the first response is lost, the copies race, or a copy
// arrives after any number of later requests. Each write must be applied once, or reject with outcome unknown and be
// applied at most once. No write may take many requests, even if the runtime loses the first response to each request.

/** More requests than one of three concurrent increments needs, however the runtime treats the requests. */
const MAX_REQUESTS = 12;

/** How the runtime treats one request. A number N means that a second copy arrives after N later requests. */
type Fate = 'once' | 'first answer lost' | 'race' | number;

type Step =
  | { readonly do: 'put' | 'delete' | 'other puts'; readonly key: number }
  /** `times` concurrent increments of a counter. */
  | { readonly do: 'increment'; readonly times: number };

const fate: fc.Arbitrary<Fate> = fc.oneof(
  fc.constantFrom<Fate>('once', 'first answer lost', 'first answer lost', 'race'),
  fc.integer({ min: 0, max: 6 }),
);
const key = fc.nat({ max: 1 });
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constantFrom('put', 'put', 'delete', 'other puts'), key }),
  fc.record({ do: fc.constant('increment' as const), times: fc.integer({ min: 1, max: 3 }) }),
);

test('each write on a runtime that resends requests is applied once, or at most once if its outcome is unknown', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 2, maxLength: 8 }),
      fc.array(fate, { minLength: 1, maxLength: 12 }),
      play,
    ),
    { seed: 20_260, numRuns: iterations(60) },
  );
});

async function play(steps: readonly Step[], fates: readonly Fate[]): Promise<void> {
  const [direct, name] = [openClient(), unique('resent')];
  const from = (await direct.put(`${name}/counter`, '0')).header.revision + 1n;
  const host = new ResendingHost(fates);
  const etcd = openGateway({ transport: gateway({ guardWrites: true, fetch: host.fetch }) });
  /** For each value, the error of its put, or undefined if the put succeeded. */
  const errors = new Map<string, EtcdError | undefined>();
  const note = async (value: string, writing: Promise<unknown>): Promise<void> => {
    errors.set(value, await errorOrNone(writing));
  };
  let [incremented, unknown, writes] = [0, 0, 0];
  for (const [index, each] of steps.entries()) {
    const value = `value-${index}`;
    writes += 'key' in each ? 1 : each.times;
    if ('key' in each) {
      const key = `${name}/${each.key}`;
      if (each.do === 'put') await note(value, etcd.put(key, value));
      else if (each.do === 'other puts') await note(value, direct.put(key, value));
      else await errorOrNone(etcd.delete(key));
    } else {
      const increments = await Promise.all(
        Array.from({ length: each.times }, () => errorOrNone(increment(etcd, `${name}/counter`))),
      );
      for (const error of increments) {
        if (error === undefined) incremented += 1;
        else unknown += 1;
      }
    }
  }
  expect(host.requests).toBeLessThan(writes * MAX_REQUESTS);
  await host.deliverAll();
  const values = await history(direct, name, from);
  for (const [value, error] of errors) {
    const times = values.filter((each) => each === value).length;
    if (error === undefined) expect([value, times]).toEqual([value, 1]);
    else expect([value, times]).toEqual([value, error.outcome === 'unknown' ? Math.min(times, 1) : 0]);
  }
  const counter = Number((await direct.get(`${name}/counter`))?.text());
  expect(counter).toBeGreaterThanOrEqual(incremented);
  expect(counter).toBeLessThanOrEqual(incremented + unknown);
  await Promise.all([etcd.close(), direct.close()]);
}

function increment(etcd: Client, counter: string): Promise<void> {
  return stm(etcd, async (tx) => tx.put(counter, String(Number(await tx.text(counter)) + 1)));
}

async function errorOrNone(writing: Promise<unknown>): Promise<EtcdError | undefined> {
  try {
    await writing;
    return undefined;
  } catch (error) {
    if (error instanceof EtcdError) return error;
    throw error;
  }
}

/** Returns the values that were put under the prefix `NAME/` since the revision `from`, in order. */
async function history(direct: Client, name: string, from: bigint): Promise<string[]> {
  const values: string[] = [];
  const watch = direct.watch(prefix(`${name}/`), { startRevision: from });
  await direct.put(`${name}/end`, '');
  for await (const event of watch) {
    if (event.key === `${name}/end`) break;
    if (event.type === 'put') values.push(event.kv.text());
  }
  return values;
}

/** A simulated runtime whose `fetch` sends some requests twice. `fates` says how it treats each request, in turn. */
class ResendingHost {
  readonly #fates: readonly Fate[];
  #requests = 0;
  /** Copies that have not been sent yet. `left` is the number of further requests before the copy is sent. */
  #late: { left: number; readonly send: () => Promise<unknown> }[] = [];

  constructor(fates: readonly Fate[]) {
    this.#fates = fates;
  }

  readonly fetch: Fetch = async (url, init) => {
    const becomes = this.#fates[this.#requests++ % this.#fates.length] as Fate;
    const copy = async (): Promise<unknown> => (await fetch(url, { ...init, signal: null })).text();
    await this.#deliverDue();
    switch (becomes) {
      case 'once':
        return fetch(url, init);
      case 'first answer lost':
        await copy();
        return fetch(url, init);
      case 'race': {
        const [response] = await Promise.all([fetch(url, init), copy()]);
        return response;
      }
      default:
        this.#late.push({ left: becomes, send: copy });
        return fetch(url, init);
    }
  };

  get requests(): number {
    return this.#requests;
  }

  async deliverAll(): Promise<void> {
    for (const { send } of this.#late.splice(0)) await send();
  }

  async #deliverDue(): Promise<void> {
    const due = this.#late.filter((each) => each.left-- <= 0);
    this.#late = this.#late.filter((each) => !due.includes(each));
    for (const { send } of due) await send();
  }
}
