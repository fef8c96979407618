import type { SimulatedCluster, TrueEvent } from './cluster.js';

/** Returns the keys with this prefix and their latest events, as the store had them at a revision, in byte order. */
export function stateAt(cluster: SimulatedCluster, prefix: string, revision: bigint): ReadonlyMap<string, TrueEvent> {
  const state = new Map<string, TrueEvent>();
  for (const event of cluster.truth) {
    if (event.revision > revision) break;
    if (!event.key.startsWith(prefix)) continue;
    if (event.type === 'put') state.set(event.key, event);
    else state.delete(event.key);
  }
  return new Map([...state].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Returns the keys and values of a state as one text, for comparisons and messages. */
export function textOfState(state: ReadonlyMap<string, { readonly value: string }>): string {
  return [...state].map(([key, { value }]) => `${key}=${value}`).join(' ');
}
