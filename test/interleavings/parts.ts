import { toBytes } from '../../src/base/index.js';
import { Client } from '../../src/index.js';
import { type Held, Mutex } from '../../src/locks.js';
import { memory } from '../../src/testing/index.js';
import type { Arena, Party, Scenario } from './arena.js';

// What the scenarios have in common.

/** What a party does. */
export type Part = (party: Party) => Promise<void>;

/** Parties in the order of their names. */
type Parties = readonly [Party, ...Party[]];

/**
 * Returns a scenario whose parties begin at the same time. `partsOf` returns what each of them does, by its name. What
 * happens in `before` has one order only, and the parts are given its result.
 */
export function scenario<Given = undefined>(
  name: string,
  partsOf: (arena: Arena) => Readonly<Record<string, (party: Party, given: Given) => Promise<void>>>,
  before: (parties: Parties, arena: Arena) => Promise<Given> = async () => undefined as Given,
): Scenario {
  return {
    name,
    prepare: async (arena) => {
      const parts = partsOf(arena);
      const parties = (await arena.open(Object.keys(parts))) as Parties;
      const given = await before(parties, arena);
      arena.alike = Object.keys(parts).filter((name) => parts[name] === parts.A);
      return new Map(
        parties.map((party) => [party.name, () => (parts[party.name] as (typeof parts)[string])(party, given)]),
      );
    },
  };
}

/** Returns a part that calls `acquire`, and holds what it resolves with for a moment. */
export function holding(
  arena: Arena,
  acquire: (party: Party) => Promise<Held | undefined>,
  options: Parameters<Arena['holds']>[2] = {},
): Part {
  return async (party) => {
    const held = await arena.unlessFailed(acquire(party));
    if (held !== undefined) await arena.holds(party.name, held, options);
  };
}

/** Runs code with a client that no fault concerns, before the parties begin. */
export async function ahead({ server }: Arena, run: (client: Client) => Promise<unknown>): Promise<void> {
  const client = new Client({ transport: memory(server) });
  await run(client);
  await client.close();
}

export const LOCK = 'x';
export const locking = (arena: Arena): Part => holding(arena, ({ session }) => new Mutex(session, LOCK).lock());

/** Puts keys under a prefix, each at a revision of its own. Returns the revision of the first one. */
export function fill({ server }: Arena, start: string, count: number): bigint {
  const { store } = server.member;
  const first = store.revision + 1n;
  for (let index = 0; index < count; index += 1) {
    const transaction = store.write();
    transaction.put(toBytes(`${start}${index % 10}`, 'key'), new Uint8Array(), 0n);
    transaction.commit();
  }
  return first;
}
