import { KeyRange, type KeyValueMessage, type MemoryMember, textOf } from '../../../../src/internal.js';
import { escapeHtml } from '../../../cli/src/index.js';
import { LOCK, TTL_SECONDS } from './application.js';
import { isGuardKey, shortKey } from './key-names.js';
import type { LeaseView, Playground } from './playground.js';

// The panel that shows the store of a member at one of its revisions.

const ALL_KEYS = new KeyRange(new Uint8Array([0]), new Uint8Array([0]));

/** The revisions that the store of a member has. */
export interface Revisions {
  readonly first: number;
  readonly last: number;
}

export function revisionsOf({ server }: Playground, member: number): Revisions {
  const { compacted, revision } = storeOf(server, member);
  return { first: Math.max(1, Number(compacted)), last: Number(revision) };
}

/** Renders the keys of a member at a revision. Undefined: at the latest revision. */
export function storeHtml(playground: Playground, member: number, revision: number | undefined): string {
  const store = storeOf(playground.server, member);
  const at = BigInt(revision ?? store.revision);
  const isLatest = at === store.revision;
  const leases = playground.leases;
  const kvs = store.range(ALL_KEYS, at).toSorted((a, b) => orderOf(a) - orderOf(b));
  const before = at > 1n && at > store.compacted ? store.range(ALL_KEYS, at - 1n) : [];
  const isIn = (list: readonly KeyValueMessage[], { key }: KeyValueMessage): boolean =>
    list.some((each) => textOf(each.key) === textOf(key));
  const deleted = before.filter((kv) => !isIn(kvs, kv));
  const rows = [
    ...kvs.map((kv) => rowOf(kv, playground, isLatest ? leases : undefined, kv.modRevision === at ? 'changed' : '')),
    ...deleted.map((kv) => rowOf(kv, playground, undefined, 'deleted')),
  ];
  const empty = '<tr><td colspan="6" class="none">There are no keys at this revision.</td></tr>';
  const head = ['key', 'value', 'create revision', 'mod revision', 'version', 'lease'];
  const short = ['', '', 'create', 'mod', 'ver.', ''];
  const cells = head.map((text, index) =>
    short[index] === '' ? `<th>${text}</th>` : `<th><abbr title="${text}">${short[index]}</abbr></th>`,
  );
  return `<table><tr>${cells.join('')}</tr>${rows.length === 0 ? empty : rows.join('')}</table>`;
}

/** Sorts the keys by their create revisions, as the queue of a lock does. The guards of etcdwire come last. */
function orderOf({ key, createRevision }: KeyValueMessage): number {
  return Number(createRevision) + (isGuardKey(textOf(key)) ? Number.MAX_SAFE_INTEGER / 2 : 0);
}

/** Describes what a revision has changed, and when. */
export function changeOf({ commits, server }: Playground, member: number, revision: number | undefined): string {
  const store = storeOf(server, member);
  const at = BigInt(revision ?? store.revision);
  const commit = commits.find((each) => each.revision === at);
  const compacted = store.compacted > 1n ? ` etcd has forgotten all revisions before ${store.compacted}.` : '';
  if (commit === undefined) return `Revision ${at} is the first one: the store is empty.${compacted}`;
  const changes = commit.changes
    .filter(({ key }) => !isGuardKey(key))
    .map(({ type, key, value }) => (type === 'put' ? `put ${shortKey(key)} = ${value}` : `deleted ${shortKey(key)}`));
  return `Revision ${at}, at ${(commit.atMs / 1_000).toFixed(2)} s: ${changes.join(', ')}.${compacted}`;
}

function storeOf({ members, member }: Playground['server'], index: number): MemoryMember['state']['store'] {
  return (members[index]?.state ?? member).store;
}

function rowOf(
  kv: KeyValueMessage,
  playground: Playground,
  leases: readonly LeaseView[] | undefined,
  state: string,
): string {
  const key = textOf(kv.key);
  const owner = kv.lease === 0n ? '' : (playground.leaseNames.get(kv.lease.toString(16)) ?? '');
  const isQueueKey = key.startsWith(`${LOCK}/`);
  const isGuard = isGuardKey(key);
  const place = isQueueKey && leases !== undefined ? playground.queue.findIndex((each) => each.key === key) : -1;
  const role =
    place === 0 ? 'holds the lock' : place > 0 ? `waits, ${place} ahead` : isGuard ? 'a guard of writes' : '';
  const lease = leases?.find(({ id }) => id === kv.lease);
  const value = state === 'deleted' ? '<td class="bad">deleted</td>' : `<td>${escapeHtml(textOf(kv.value))}</td>`;
  const classes = [state, ...(isGuard ? ['guard'] : []), ...(place === 0 ? ['holder'] : [])].join(' ').trim();
  return `<tr${classes === '' ? '' : ` class="${classes}"`}><td title="${escapeHtml(key)}">${escapeHtml(shortKey(key))}${role === '' ? '' : `<small>${role}</small>`}</td>${value}<td>${kv.createRevision}</td><td>${kv.modRevision}</td><td>${kv.version}</td><td>${leaseHtml(owner, lease)}</td></tr>`;
}

/** Renders the owner of a lease and the time that it has left. */
function leaseHtml(owner: string, lease: LeaseView | undefined): string {
  if (lease?.remainingSeconds === undefined) return owner === '' ? '–' : escapeHtml(owner);
  const { remainingSeconds, ttlSeconds } = lease;
  const percent = Math.max(0, Math.round((100 * remainingSeconds) / ttlSeconds));
  const low = remainingSeconds <= TTL_SECONDS / 2 ? ' low' : '';
  return `${escapeHtml(owner)} ${remainingSeconds} s<span class="bar${low}"><i style="width:${percent}%"></i></span>`;
}
