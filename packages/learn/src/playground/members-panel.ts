import { keyId, type MemoryMember, type RaftEntry, type RaftView, textOf } from '../../../../src/internal.js';
import { escapeHtml } from '../../../cli/src/index.js';
import { MEMBER_ACTIONS } from './actions.js';
import { LEDGER } from './application.js';
import { shortKey } from './key-names.js';
import type { Playground } from './playground.js';

// The panel that shows the raft of each member: role, term, vote, log and commit index.

/** Number of the entries of a log that the panel shows. */
const SHOWN_ENTRIES = 8;

/** Renders the frames of the cards. The page fills `info-…` and `buttons-…` of each member. */
export function memberCards({ server, isCluster }: Playground): string {
  if (!isCluster) return '';
  return server.members
    .map(
      ({ name }) =>
        `<section class="member" id="member-${name}" aria-label="Member ${name}"><div id="info-${name}"></div><div class="break" id="buttons-${name}"></div></section>`,
    )
    .join('');
}

/** Returns the classes that show the state of a member. */
export function memberClass({ raft, running, isCutOff }: MemoryMember): string {
  return `member ${running ? raft?.role : 'killed'}${isCutOff ? ' cut' : ''}`;
}

export function memberButtons(member: MemoryMember): string {
  const buttons = MEMBER_ACTIONS.map(({ id, title, label, isPressed }) => {
    const pressed = isPressed === undefined ? '' : ` aria-pressed="${isPressed(member)}"`;
    return `<button type="button" data-act="${member.name}.${id}" title="${escapeHtml(title)}"${pressed}>${label(member)}</button>`;
  });
  return buttons.join('');
}

export function memberInfo({ name, raft, running, isCutOff, state }: MemoryMember): string {
  if (raft === undefined) return '';
  const role = running ? raft.role : 'killed';
  const kv = state.store.get(keyId(new TextEncoder().encode(LEDGER)));
  const notes = [
    `term ${raft.term}`,
    ...(raft.votedFor === undefined ? [] : [`vote for ${escapeHtml(raft.votedFor)}`]),
    ...(raft.votes.length > 0 && raft.role !== 'leader' ? [`votes of ${raft.votes.map(escapeHtml).join(', ')}`] : []),
    `commit ${raft.commitIndex}`,
  ];
  const ledger = `ledger <b>${kv === undefined ? '–' : escapeHtml(textOf(kv.value))}</b>`;
  const cut = isCutOff ? ' <span class="bad">cut off</span>' : '';
  return `<h3>${name} <span class="role">${role}</span>${cut}</h3><p>${notes.join(' · ')}</p>${logHtml(raft)}<p class="last">${lastEntry(raft)}</p><p class="ledger">${ledger} · rev. ${state.store.revision}</p>`;
}

function lastEntry({ log, commitIndex }: RaftView): string {
  const last = log.at(-1);
  if (last === undefined) return 'the log is empty';
  return escapeHtml(`entry ${describe(last, commitIndex)}`);
}

function describe({ index, term, text }: RaftEntry, commitIndex: number): string {
  const what = text === '' ? `term ${term} begins` : shortKey(text);
  return `${index}: ${what}${index <= commitIndex ? '' : ', not committed'}`;
}

/** Renders the last entries of a log. A filled entry is committed. */
function logHtml({ log, commitIndex }: RaftView): string {
  const shown = log.slice(-SHOWN_ENTRIES);
  const entries = shown.map((entry) => {
    const title = escapeHtml(`entry ${describe(entry, commitIndex)}`);
    const state = entry.index <= commitIndex ? 'committed' : 'open';
    return `<li class="${state}" title="${title}">${entry.index}<small>t${entry.term}</small></li>`;
  });
  return `<ol class="entries" aria-label="Log">${log.length > shown.length ? '<li class="more">…</li>' : ''}${entries.join('')}</ol>`;
}
