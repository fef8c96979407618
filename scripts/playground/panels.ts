import { escapeHtml } from '../../src/cli/trace/body.js';
import { TTL_SECONDS } from './application.js';
import type { Playground } from './playground.js';

// The panels that show the state of etcd: the queue of the lock, the leases, and the changes of the store.

export function queueHtml({ queue }: Playground): string {
  if (queue.length === 0) return '<p class="none">The queue is empty: the lock is free.</p>';
  const items = queue.map(
    ({ client, key, createRevision }, index) =>
      `<div class="contender"><b>${escapeHtml(client)} ${index === 0 ? 'holds the lock' : 'waits'}</b> <small>${escapeHtml(key)}, create revision ${createRevision}</small></div>`,
  );
  return items.join('');
}

export function leasesHtml({ leases }: Playground): string {
  if (leases.length === 0) return '<p class="none">There is no lease.</p>';
  return leases
    .map(({ id, client, ttlSeconds, remainingSeconds, keys }) => {
      const percent = Math.round((100 * remainingSeconds) / ttlSeconds);
      const low = remainingSeconds <= TTL_SECONDS / 2 ? ' low' : '';
      const what = keys.length === 0 ? `lease ${id.toString(16)}, no keys` : keys.join(', ');
      return `<div class="lease"><b>${escapeHtml(client)}</b>: ${remainingSeconds} of ${ttlSeconds} s <small>${escapeHtml(what)}</small><div class="bar${low}"><i style="width:${percent}%"></i></div></div>`;
    })
    .join('');
}

export function storeHtml({ commits, server }: Playground): string {
  if (commits.length === 0) return '<p class="none">The store is empty, at revision 1.</p>';
  const { compacted } = server.member.store;
  /**
   * For each key, the revision of its latest change up to the compaction if this change is a put, because the store
   * keeps that put. If the change is a deletion, a number that equals no revision up to the compaction.
   */
  const latest = new Map<string, bigint>();
  for (const { revision, changes } of commits)
    if (revision <= compacted)
      for (const { key, type } of changes) latest.set(key, type === 'put' ? revision : compacted + 1n);
  const rows = commits.flatMap(({ revision, atMs, changes }) =>
    changes.map(({ type, key, value }) => {
      const isForgotten = revision <= compacted && latest.get(key) !== revision;
      const what = type === 'delete' ? '<td class="bad">deleted</td>' : `<td>${escapeHtml(value)}</td>`;
      return `<tr${isForgotten ? ' class="forgotten"' : ''}><td>${revision}</td><td>${(atMs / 1_000).toFixed(1)} s</td><td>${escapeHtml(key)}</td>${what}</tr>`;
    }),
  );
  const note = compacted > 0n ? `<p class="none">etcd has forgotten what is struck out.</p>` : '';
  return `<table><tr><th>revision</th><th>time</th><th>key</th><th>value</th></tr>${rows.join('')}</table>${note}`;
}
