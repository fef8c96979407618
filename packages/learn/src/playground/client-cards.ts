import { escapeHtml } from '../../../cli/src/index.js';
import { CLIENT_ACTIONS, COMPACT } from './actions.js';
import type { LogLine } from './application.js';
import type { PlayClient } from './play-client.js';
import type { Playground } from './playground.js';

// The cards that show what the clients do, their logs, and the buttons for one of them.

/** Number of lines of the log that a card shows. */
const CARD_LINES = 3;

/** What a client does at this moment, and how the page shows it. */
function statusOf(client: PlayClient, { queue }: Playground): readonly [text: string, kind: string] {
  const { app, isKilled, isPaused, isStalled, isCut } = client;
  if (isKilled) return ['killed', 'killed'];
  const notes = [
    ...(isPaused ? ['paused'] : isStalled ? ['blocked'] : []),
    ...(isCut ? ['wire cut'] : []),
    ...(client.losesAnswer ? ['next answer is lost'] : []),
    ...(app.lastWrite === 'pending' ? ['writing …'] : []),
    ...(app.lastRead.state === 'pending' ? ['reading …'] : []),
    ...(app.isWatching ? ['watches'] : []),
  ];
  const after = notes.length === 0 ? '' : `, ${notes.join(', ')}`;
  const isBad = isStalled || isCut ? 'bad' : '';
  const ahead = queue.findIndex(({ key }) => key === app.queueKey);
  if (app.token !== undefined) {
    // A stalled or disconnected client does not know that its key was deleted.
    const holds = ahead === 0 ? 'holds the lock' : 'believes that it holds the lock';
    return [`${holds}, token ${app.token}${after}`, isBad || (ahead === 0 ? 'holds' : 'bad')];
  }
  if (app.isWaiting) return [`waits${ahead > 0 ? `, ${ahead} ahead` : ''}${after}`, isBad];
  if (app.oldToken !== undefined) return [`lost the lock, old token ${app.oldToken}${after}`, isBad];
  return [notes.join(', ') || 'idle', isBad];
}

/** Renders the cards of all clients. Each line of a log begins with its first words, and is cut at its end. */
export function cardsHtml(playground: Playground, chosen: string | undefined): string {
  return playground.clients
    .map((client) => {
      const { name, app, known } = client;
      const [status, kind] = statusOf(client, playground);
      const lines = app.log.slice(-CARD_LINES).map(({ text, kind: color }) => {
        const words = escapeHtml(text);
        return `<li class="${color}" title="${words}">${words}</li>`;
      });
      const log = lines.length === 0 ? '<li class="none">The program has done nothing yet.</li>' : lines.join('');
      const calls = playground.isCluster ? ` <small>calls ${known.join(', ')}</small>` : '';
      const title = `<h3><b>${name}</b> <span class="status ${kind}" id="status-${name}">${status}</span>${calls}</h3>`;
      return `<section class="card ${kind}${name === chosen ? ' chosen' : ''}" data-card="${name}" aria-label="Client ${name}">${title}<ul class="log" id="log-${name}">${log}</ul></section>`;
    })
    .join('');
}

/** Renders the logs of all clients in the order of time. */
export function logHtml({ clients }: Playground): string {
  const lines = clients.flatMap(({ name, app }) => app.log.map((line): readonly [string, LogLine] => [name, line]));
  if (lines.length === 0) return '<li class="none">The programs of the clients have done nothing yet.</li>';
  return lines
    .toSorted(([, a], [, b]) => a.atMs - b.atMs)
    .map(
      ([name, { atMs, text, kind }]) =>
        `<li class="${kind}"><time>${(atMs / 1_000).toFixed(2)} s</time> <b>${name}</b> ${escapeHtml(text)}</li>`,
    )
    .join('');
}

/** Renders the buttons for the chosen client. The group that breaks something appears on request. */
export function actionsHtml(playground: Playground, chosen: string, isBreaking: boolean): string {
  const client = playground.clients.find(({ name }) => name === chosen);
  if (client === undefined) return '';
  const choice = playground.clients.map(
    ({ name }) =>
      `<button type="button" data-choose="${name}" aria-pressed="${name === chosen}" aria-label="Act as ${name}">${name}</button>`,
  );
  const buttonsOf = (group: string): string =>
    CLIENT_ACTIONS.filter((action) => action.group === group)
      .filter(({ id }) => id !== 'read-local' || playground.isCluster)
      .filter(({ group: of, isEnabled }) => of !== 'lock' || isEnabled(client) || client.isStalled || client.isKilled)
      .map(({ id, title, label, isEnabled, isPressed }) => {
        const pressed = isPressed === undefined ? '' : ` aria-pressed="${isPressed(client)}"`;
        const disabled = isEnabled(client) ? '' : ' disabled';
        return `<button type="button" id="act-${id}" data-act="${chosen}.${id}" title="${escapeHtml(title)}"${pressed}${disabled}>${label(client)}</button>`;
      })
      .join('');
  const compact = playground.isCluster
    ? ''
    : `<button type="button" data-act="${COMPACT}" title="etcd forgets what keys were before the current revision">Compact the store</button>`;
  const faults = isBreaking ? `<span class="group">${buttonsOf('break')}${compact}</span>` : '';
  const more = `<button type="button" id="break" aria-expanded="${isBreaking}">Break something</button>`;
  return `<span class="group choice" role="group" aria-label="The client that acts">${choice.join('')}</span><span class="group">${buttonsOf('lock')}</span><span class="group">${buttonsOf('data')}</span>${more}${faults}`;
}
