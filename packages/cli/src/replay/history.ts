import { bigintIn, type JsonObject, objectIn, objectsIn } from '../../../../src/internal.js';
import type { WireEvent } from './calls.js';
import { keyValuesIn } from './messages.js';

/** What the answers of a recording show of the history of the store. */
export class RecordedHistory {
  /** The events of watches by their revision, each key once. */
  readonly #events = new Map<bigint, Map<string, JsonObject>>();
  /** The versions of keys in all answers. The same version may occur several times. */
  readonly versions: JsonObject[] = [];
  /** The revisions at which each key was created. */
  readonly #created = new Map<string, Set<bigint>>();
  /** The latest revision at which a watch shows that each key was deleted. */
  readonly #deleted = new Map<string, bigint>();

  constructor(events: readonly WireEvent[]) {
    for (const { kind, message } of events) {
      if (kind !== 'answer') continue;
      for (const event of objectsIn(message.events)) this.#addEvent(event);
      for (const kv of keyValuesIn(message)) this.#addVersion(kv);
    }
  }

  /** The events of a revision, if a watch shows them. */
  eventsAt(revision: bigint): readonly JsonObject[] {
    return [...(this.#events.get(revision)?.values() ?? [])];
  }

  /** Returns the first revision after `after` at which a key was created. Undefined if the recording does not show it. */
  createdAfter(key: string, after: bigint): bigint | undefined {
    let first: bigint | undefined;
    for (const revision of this.#created.get(key) ?? [])
      if (revision > after && (first === undefined || revision < first)) first = revision;
    return first;
  }

  /** Whether a watch shows that a key was deleted after a revision. */
  isDeletedAfter(key: string, revision: bigint): boolean {
    return (this.#deleted.get(key) ?? 0n) > revision;
  }

  #addEvent(event: JsonObject): void {
    const kv = objectIn(event.kv);
    const revision = bigintIn(kv.mod_revision);
    const same = this.#events.get(revision) ?? new Map<string, JsonObject>();
    this.#events.set(revision, same);
    const { prev_kv: _, ...rest } = event;
    const key = String(kv.key);
    same.set(key, rest);
    if (event.type === 'DELETE' && !this.isDeletedAfter(key, revision)) this.#deleted.set(key, revision);
  }

  #addVersion(kv: JsonObject): void {
    this.versions.push(kv);
    if (kv.create_revision === undefined) return;
    const key = String(kv.key);
    const created = this.#created.get(key) ?? new Set();
    this.#created.set(key, created);
    created.add(bigintIn(kv.create_revision));
  }
}

/** The puts that the planner has carried out, by their keys, with their revisions. */
export type WrittenKeys = ReadonlyMap<string, readonly bigint[]>;

/**
 * Returns the keys that existed before the recording, as far as it shows them. If an answer shows a key only after a
 * recorded put, its earlier value is unknown, and is empty here. `existing` contains keys that existed although no
 * answer may contain them.
 */
export function keysBefore(
  history: RecordedHistory,
  revision: bigint,
  written: WrittenKeys,
  existing: ReadonlySet<string>,
): { readonly keys: readonly JsonObject[]; readonly unknownValues: number } {
  const keys = new Map<string, JsonObject>();
  const nameOf = (kv: JsonObject): string => `${kv.mod_revision} ${kv.key}`;
  for (const kv of history.versions) {
    if (bigintIn(kv.mod_revision) > revision) continue;
    const known = keys.get(nameOf(kv));
    if (known === undefined || known.value === undefined) keys.set(nameOf(kv), kv);
  }
  const shown = new Set([...keys.values()].map(({ key }) => key));
  let unknownValues = 0;
  for (const kv of history.versions) {
    const { key, create_revision, mod_revision, version } = kv;
    if (create_revision === undefined || shown.has(key) || bigintIn(create_revision) > revision) continue;
    const puts = (written.get(String(key)) ?? []).filter((each) => each <= bigintIn(mod_revision)).length;
    const before = bigintIn(version) - BigInt(puts);
    if (before < 1n) continue;
    const modRevision = before === 1n ? bigintIn(create_revision) : revision;
    const earlier = { key: key ?? '', create_revision, mod_revision: String(modRevision), version: String(before) };
    keys.set(nameOf(earlier), earlier);
    shown.add(key);
    unknownValues += 1;
  }
  for (const key of existing) {
    if (shown.has(key)) continue;
    const earlier = { key, create_revision: String(revision), mod_revision: String(revision), version: '1' };
    keys.set(nameOf(earlier), earlier);
    unknownValues += 1;
  }
  return { keys: [...keys.values()], unknownValues };
}
