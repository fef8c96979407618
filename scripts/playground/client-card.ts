import { escapeHtml } from '../../src/cli/trace/body.js';
import type { PlayClient } from './play-client.js';
import type { Playground } from './playground.js';

const BLOCK_MS = 8_000;

/** A button of a client. */
interface Action {
  readonly id: string;
  readonly title: string;
  readonly label: (client: PlayClient) => string;
  readonly act: (client: PlayClient) => void;
  readonly isEnabled: (client: PlayClient) => boolean;
  /** Whether the button shows that something lasts until the next press. */
  readonly isPressed?: (client: PlayClient) => boolean;
}

export const ACTIONS: readonly Action[] = [
  {
    id: 'lock',
    title: 'Takes the lock "jobs", or waits for it in the queue',
    label: () => 'Lock',
    act: ({ app }) => app.lock(),
    isEnabled: (client) => runs(client) && client.app.token === undefined && !client.app.isWaiting,
  },
  {
    id: 'unlock',
    title: 'Releases the lock, leaves the queue, or forgets the token of a lost lock',
    label: () => 'Unlock',
    act: ({ app }) => app.unlock(),
    isEnabled: (client) =>
      runs(client) && (client.app.token !== undefined || client.app.oldToken !== undefined || client.app.isWaiting),
  },
  {
    id: 'write',
    title: 'Writes the key "ledger". A client that took the lock writes with its fencing token',
    label: () => 'Write',
    act: ({ app }) => app.write(),
    isEnabled: (client) => runs(client) && client.app.lastWrite !== 'pending',
  },
  {
    id: 'watch',
    title: 'Watches the key "ledger", or stops to watch it',
    label: () => 'Watch',
    act: ({ app }) => app.watch(),
    isEnabled: (client) => runs(client),
    isPressed: ({ app }) => app.isWatching,
  },
  {
    id: 'kill',
    title: 'Kills the process, or starts a new one',
    label: ({ isKilled }) => (isKilled ? 'Start' : 'Kill'),
    act: (client) => (client.isKilled ? client.restart() : client.kill()),
    isEnabled: () => true,
  },
  {
    id: 'pause',
    title: 'Stops the process, as SIGSTOP or a sleeping laptop does, or lets it continue',
    label: () => 'Pause',
    act: (client) => (client.isPaused ? client.resume() : client.pause()),
    isEnabled: ({ isKilled }) => !isKilled,
    isPressed: ({ isPaused }) => isPaused,
  },
  {
    id: 'block',
    title: 'Keeps the event loop of the process busy for 8 s',
    label: () => 'Block the loop',
    act: (client) => client.block(BLOCK_MS),
    isEnabled: (client) => runs(client),
  },
  {
    id: 'wire',
    title: 'Breaks the connection and refuses new ones, until the button is pressed again',
    label: () => 'Cut the wire',
    act: (client) => (client.isCut ? client.mendWire() : client.cutWire()),
    isEnabled: ({ isKilled }) => !isKilled,
    isPressed: ({ isCut }) => isCut,
  },
  {
    id: 'lose',
    title: 'etcd applies the next write of this client, but the connection breaks before the answer arrives',
    label: () => 'Lose the next answer',
    act: (client) => client.toggleLostAnswer(),
    isEnabled: ({ isKilled }) => !isKilled,
    isPressed: ({ losesAnswer }) => losesAnswer,
  },
];

/** Whether the process runs code at this moment. */
function runs({ isKilled, isStalled }: PlayClient): boolean {
  return !isKilled && !isStalled;
}

/** Renders the card of a client, with its buttons. */
export function cardOf({ name }: PlayClient): string {
  const buttons = ACTIONS.map(
    ({ id, title }) =>
      `<button type="button" id="${id}-${name}" data-client="${name}" data-action="${id}" title="${escapeHtml(title)}"></button>`,
  );
  return `<section class="card" id="card-${name}" aria-label="Client ${name}"><h2><b>${name}</b><span id="status-${name}"></span></h2><div class="buttons">${buttons.join('')}</div><ul class="log" id="log-${name}"></ul></section>`;
}

/** What a client does at this moment, and how the page shows it. */
export function statusOf(client: PlayClient, { queue }: Playground): readonly [text: string, kind: string] {
  const { app, isKilled, isPaused, isStalled, isCut } = client;
  if (isKilled) return ['killed', 'bad'];
  const notes = [
    ...(isPaused ? ['paused'] : isStalled ? ['blocked'] : []),
    ...(isCut ? ['wire cut'] : []),
    ...(app.lastWrite === 'pending' ? ['writing …'] : []),
    ...(app.isWatching ? ['watches'] : []),
  ];
  const after = notes.length === 0 ? '' : `, ${notes.join(', ')}`;
  const isBad = isStalled || isCut ? 'bad' : '';
  if (app.token !== undefined) return [`holds the lock, token ${app.token}${after}`, isBad || 'holds'];
  const ahead = queue.findIndex(({ key }) => key === app.queueKey);
  if (app.isWaiting) return [`waits${ahead > 0 ? `, ${ahead} ahead` : ''}${after}`, isBad];
  return [`${app.oldToken === undefined ? 'idle' : `lost the lock, old token ${app.oldToken}`}${after}`, isBad];
}
