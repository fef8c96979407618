import { toBytes } from '../../src/base/index.js';
import { type Held, Mutex } from '../../src/locks.js';
import type { Arena, Party, Scenario } from './arena.js';

// What the scenarios have in common.

/** What a party does. */
export type Part = (party: Party) => Promise<void>;

/** Returns a scenario whose parties begin at the same time. `partsOf` returns what each of them does, by its name. */
export function scenario(name: string, partsOf: (arena: Arena) => Readonly<Record<string, Part>>): Scenario {
  return {
    name,
    prepare: async (arena) => {
      const parts = partsOf(arena);
      const parties = await arena.open(Object.keys(parts));
      arena.alike = Object.keys(parts).filter((name) => parts[name] === parts.A);
      return new Map(parties.map((party) => [party.name, () => (parts[party.name] as Part)(party)]));
    },
  };
}

/** Returns a part that calls `acquire`, and holds what it resolves with for a moment. */
export function holding(
  arena: Arena,
  acquire: (party: Party) => Promise<Held | undefined>,
  options: { readonly isShared?: boolean; readonly ms?: number } = {},
): Part {
  return async (party) => {
    const held = await arena.unlessFailed(acquire(party));
    if (held !== undefined) await arena.holds(party.name, held, options);
  };
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
