import { escapeHtml } from '../../../cli/src/index.js';
import type { Step } from './playground.js';
import { arrowOf, classOf, laneNames } from './trace-rows.js';
import type { Visit } from './visit.js';

// The caption: what happens now, in one sentence and in one arrow.

/** What each RPC and each message of raft is for. */
const GLOSSARY: Readonly<Record<string, string>> = {
  LeaseGrant: 'A lease ends, and its keys with it, unless the client renews it in time.',
  Txn: 'A transaction: if all its conditions hold, etcd applies all its operations at one revision.',
  Put: 'Each put makes a new revision of the whole store.',
  Range: 'Reads one key, or all keys between two keys.',
  Watch: 'A stream of events. Each event carries the revision that made it.',
  LeaseKeepAlive: 'A stream on which the client renews its lease.',
  RequestVote: 'A member that hears no leader asks the others for their votes.',
  Vote: 'Each member votes once in a term, so a term has at most one leader.',
  AppendEntries: 'The leader copies its log to the others. An entry that a majority has is committed.',
  Appended: 'The leader counts the members that have the entry.',
  Forward: 'Only the leader appends to the log, so the other members forward writes to it.',
  ReadIndex: 'Before a linearizable read, a member asks the leader up to which entry it must be.',
  ReadIndexAnswer: 'The leader answers after a majority has confirmed that it still leads.',
};

/** Renders the lanes and the arrow of a step. */
export function figureHtml(step: Step | undefined, lanes: readonly string[]): string {
  const names = `<span class="lane names">${laneNames(lanes)}</span>`;
  // The number of the step makes the page replace the arrow, which starts its animation again.
  const kind = step === undefined ? '' : classOf(step);
  return `${names}<span class="lane moving ${kind}" data-step="${step?.id ?? 0}">${arrowOf(step, lanes)}</span>`;
}

/** Renders who sends what to whom, and what it means. */
export function meaningHtml(step: Step | undefined): string {
  if (step === undefined) return '<b>Nothing has happened yet.</b>';
  const { from, to, label, protocol, atMs } = step;
  const rpc = protocol.split(' · ')[0] ?? '';
  // The label of a step at one place names the client or the member.
  const who = from === to ? '' : `<b>${escapeHtml(from)} → ${escapeHtml(to)}</b>`;
  const code = rpc === '' ? '' : ` <code>${escapeHtml(rpc)}</code>`;
  const time = ` <time>${(atMs / 1_000).toFixed(2)}&nbsp;s</time>`;
  const gloss = GLOSSARY[rpc] ?? '';
  return `<p class="${classOf(step)}">${who}${code} <span class="words">${escapeHtml(label)}</span>${time}</p><p class="gloss">${escapeHtml(gloss)}</p>`;
}

/** Returns a step in words for a screen reader. */
export function spokenOf({ from, to, label, protocol }: Step): string {
  if (from === to) return `${label}.`;
  return `${from} to ${to}, ${protocol.split(' · ')[0]}: ${label}.`;
}

/** Returns the sentence about the present state. */
export function sentenceOf({ player, actions, isOwn, playground }: Visit): string {
  const last = actions.at(-1);
  if (last !== undefined) {
    const [who, what] = last.name.split('.');
    return `Action ${actions.length}, at ${(last.atMs / 1_000).toFixed(1)} s: ${who}, ${what}.`;
  }
  if (player !== undefined && !isOwn) return player.told.at(-1) ?? player.story.question;
  if (player !== undefined) return 'Go on by yourself: choose a client, and let it act. Undo returns to the story.';
  const start = playground.isCluster
    ? 'An etcd with three members. A calls m0, B calls m1, and C calls m2.'
    : 'An etcd with one member, and three clients.';
  return `${start} Choose a client, and let it lock or write. Time stops when nothing happens.`;
}

/** Renders a link to each scene of the story. */
export function dotsHtml({ player }: Visit): string {
  if (player === undefined) return '';
  const { story, scene } = player;
  const dots = story.scenes.map((_, index) => {
    const number = index + 1;
    const current = number === scene ? ' aria-current="step"' : '';
    const state = number < scene ? ' class="past"' : '';
    return `<li><a href="#story/${story.id}/${number}" aria-label="Step ${number}"${current}${state}>${number}</a></li>`;
  });
  return dots.join('');
}
