import { SLICE_MS } from './play-client.js';
import type { Members } from './playground.js';
import { STORIES } from './stories.js';

// The address of a state is the fragment of the page's URL. It says how to reach the state: a story and the number of
// its scenes that have been played, or an empty etcd, and then the actions of the visitor with their times. The world
// is deterministic, so each address always leads to the same state.
//
//   #story/fair/3                                 the story "fair" after its third scene
//   #story/fair/3/try/A.kill@1440,@9000           after this, the visitor killed A, and let time pass until 9 s
//   #try/1/A.lock@0,B.lock@600,@2000              an etcd with one member, A and B ask for the lock
//   #try/3/m0.kill@0,@4000                        an etcd with three members, and the visitor killed m0

/** Limits of an address, so that no address keeps the browser busy for long. */
const MAX_ACTIONS = 200;
const MAX_MS = 600_000;

/** An action of the visitor. */
export interface TimedAction {
  /** Such as `A.lock`. */
  readonly name: string;
  /** Simulated milliseconds since the start. */
  readonly atMs: number;
}

export interface Address {
  /** `isOwn`: the visitor has left the story after the scene, and acts on the clients. */
  readonly start:
    | { readonly kind: 'story'; readonly id: string; readonly scene: number; readonly isOwn: boolean }
    | { readonly kind: 'try'; readonly members: Members };
  readonly actions: readonly TimedAction[];
  /** Until when time has passed, in simulated milliseconds since the start. 0: it has not passed after the last action. */
  readonly untilMs: number;
}

/** Returns the address as a fragment. */
export function fragmentOf({ start, actions, untilMs }: Address): string {
  const own = start.kind === 'story' && start.isOwn ? '/try' : '';
  const base = start.kind === 'story' ? `story/${start.id}/${start.scene}${own}` : `try/${start.members}`;
  const parts = actions.map(({ name, atMs }) => `${name}@${atMs}`);
  if (untilMs > (actions.at(-1)?.atMs ?? 0)) parts.push(`@${untilMs}`);
  return `#${base}${parts.length === 0 ? '' : `/${parts.join(',')}`}`;
}

/** Reads a fragment. Undefined if it is not the address of a state. */
export function addressOf(fragment: string): Address | undefined {
  const [kind, id = '', ...rest] = fragment.replace(/^#/, '').split('/');
  if (kind === 'try' && (id === '1' || id === '3')) {
    const members: Members = id === '1' ? 1 : 3;
    return withActions({ kind: 'try', members }, rest[0]);
  }
  const story = STORIES.find((each) => each.id === id);
  if (kind !== 'story' || story === undefined) return undefined;
  const [number, own, actions] = rest;
  const scene = number === undefined ? 0 : Number(number);
  if (!Number.isInteger(scene) || scene < 0 || scene > story.scenes.length) return undefined;
  if (own !== undefined && own !== 'try') return undefined;
  return withActions({ kind: 'story', id, scene, isOwn: own === 'try' }, actions);
}

function withActions(start: Address['start'], text = ''): Address | undefined {
  const actions: TimedAction[] = [];
  let untilMs = 0;
  for (const part of text === '' ? [] : text.split(',')) {
    const [name = '', time = ''] = part.split('@');
    const atMs = Number(time);
    if (!/^\d+$/.test(time) || atMs % SLICE_MS !== 0 || atMs < untilMs || atMs > MAX_MS) return undefined;
    untilMs = atMs;
    if (name !== '') actions.push({ name, atMs });
  }
  return actions.length > MAX_ACTIONS ? undefined : { start, actions, untilMs };
}
