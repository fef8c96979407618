// The part of a trace page that shows the store, the leases and the watches at the chosen step. Each row of the diagram
// contains its changes: see `ShownState`. The script applies the changes of all rows up to the chosen one.

/**
 * Minimum width in pixels of the panel beside the diagram. With less room, the panel is at the bottom of the window.
 */
const PANEL_WIDTH = 320;

export const STATE_PANEL = `<aside><details id="shown" open><summary><b id="shown-at"></b> <span id="shown-counts"></span></summary>
<section><h3>Keys</h3><div id="shown-keys"></div></section>
<section><h3>Leases</h3><div id="shown-leases"></div></section>
<section><h3>Watches</h3><div id="shown-watches"></div></section>
</details></aside>`;

/** Defines the functions `showState`, which shows the state after a row, and `placePanel`. */
export const STATE_SCRIPT = `
const shownEvents = 5;
const noneExists = 'None exists at this moment, as far as the messages show.';
function stateAt(steps, row) {
  const [keys, leases, watches, changed] = [new Map(), new Map(), new Map(), new Set()];
  for (const step of steps) {
    changed.clear();
    for (const change of JSON.parse(step.dataset.changes ?? '[]')) {
      const { kind, id } = change;
      if (kind === 'key') keys.set(change.key.key, change.key);
      else if (kind === 'key gone') keys.delete(change.key);
      else if (kind === 'lease') leases.set(id, { ttl: change.ttl, total: Math.max(change.ttl, leases.get(id)?.total ?? 0), ms: Number(step.dataset.ms) });
      else if (kind === 'lease gone') leases.delete(id);
      else if (kind === 'watch') watches.set(id, { range: change.range, count: 0, events: [] });
      else if (kind === 'watch gone') watches.delete(id);
      else if (watches.has(id)) {
        const watch = watches.get(id);
        watch.count += 1;
        watch.events = [...watch.events, change.text].slice(-shownEvents);
      }
      changed.add(change.key?.key ?? change.key ?? id);
    }
    if (step === row) break;
  }
  return { keys, leases, watches, changed };
}
function element(name, text, className = '') {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
}
function fill(id, items, none) {
  byId(id).replaceChildren(...(items.length === 0 ? [element('p', none, 'none')] : items));
}
function item(isChanged, title, lines) {
  const made = element('div', '', isChanged ? 'shown-item changed' : 'shown-item');
  made.title = title;
  made.append(...lines);
  return made;
}
const plural = (count, what) => count + ' ' + (count === 1 ? what : what === 'watch' ? 'watches' : what + 's');
function showState(row) {
  const last = row ?? rows.at(-1);
  const trace = last?.dataset.key.split(' ')[0];
  const steps = rows.filter(({ dataset }) => dataset.key.split(' ')[0] === trace).sort((a, b) => a.dataset.order - b.dataset.order);
  const { keys, leases, watches, changed } = stateAt(steps, row);
  const names = JSON.parse(document.querySelector('[data-names]').dataset.names);
  const name = names.length === 1 || last === undefined ? '' : names[Number(trace)] + ', ';
  byId('shown-at').textContent = name + (row === undefined ? 'at the end' : 'after ' + (row.dataset.ms / 1000).toFixed(3) + ' s');
  byId('shown-counts').textContent = [plural(keys.size, 'key'), plural(leases.size, 'lease'), plural(watches.size, 'watch')].join(', ');
  fill('shown-keys', [...keys.values()].map(({ key, name: shown, value, mod, version, lease }) => {
    const parts = ['mod revision ' + mod, ...(version === '' ? [] : ['version ' + version]), ...(lease === '' ? [] : ['lease ' + lease])];
    return item(changed.has(key), key, [element('b', shown), element('span', ' = ' + (value || '""')), element('small', parts.join(' · '))]);
  }), noneExists);
  const nowMs = Number((row ?? last)?.dataset.ms ?? 0);
  fill('shown-leases', [...leases].map(([id, { ttl, total, ms }]) => {
    const left = Math.max(0, ttl - (nowMs - ms) / 1000);
    const bar = element('div', '', left < total / 3 ? 'bar low' : 'bar');
    const filled = element('i', '');
    filled.style.width = (total === 0 ? 0 : 100 * left / total) + '%';
    bar.append(filled);
    const held = [...keys.values()].filter(({ lease }) => lease === id).map(({ name: shown }) => shown).join(', ');
    const words = left === 0 ? 'its time is over' : left.toFixed(1) + ' of ' + total + ' s left';
    return item(changed.has(id), id, [element('b', id), element('span', ': ' + words), bar, ...(held === '' ? [] : [element('small', held)])]);
  }), noneExists);
  fill('shown-watches', [...watches].map(([id, { range, count, events }]) => {
    const list = events.map((event) => element('small', event));
    const older = count > events.length ? [element('small', '… ' + plural(count - events.length, 'earlier event'))] : [];
    return item(changed.has(id), id, [element('b', range), element('span', ': ' + plural(count, 'event')), ...older, ...list]);
  }), 'No watch is open.');
}
function placePanel() {
  // Two traces beside one another need the whole width, and have the width 0.
  const width = Number(document.querySelector('.diagram').dataset.width);
  document.body.classList.toggle('docked', width === 0 || width + ${PANEL_WIDTH} + 70 > innerWidth);
}
addEventListener('resize', placePanel);
placePanel();
byId('shown').open = !matchMedia('(max-width: 760px)').matches;
`;

export const STATE_STYLE = `
#columns { display: grid; grid-template-columns: max-content minmax(${PANEL_WIDTH}px, 1fr); gap: 2em; align-items: start; }
aside { position: sticky; top: 0; max-height: 100vh; overflow-y: auto; margin-top: .6em; border-top: 1px solid var(--rule); background: var(--paper); }
aside summary { cursor: pointer; padding: .6em 0; } #shown-counts { color: var(--soft); }
aside h3 { font-size: 12px; font-weight: 600; color: var(--soft); margin: .8em 0 .2em; text-transform: uppercase; letter-spacing: .04em; }
.shown-item { padding: .25em .5em; border-left: 3px solid transparent; overflow-wrap: anywhere; }
.shown-item.changed { border-left-color: var(--own); background: var(--lit); }
.shown-item b { font-weight: 600; } .shown-item small { display: block; color: var(--soft); }
aside .none { color: var(--soft); margin: 0; padding: 0 .5em; }
.bar { height: 4px; border-radius: 2px; background: var(--rule); margin: 3px 0; max-width: 16em; } .bar i { display: block; height: 100%; border-radius: 2px; background: var(--good); } .bar.low i { background: var(--bad); }
.docked #columns { display: block; }
.docked aside { top: auto; bottom: 0; z-index: 2; max-height: 40vh; margin: 1em -1.5em 0; padding: 0 1.5em; box-shadow: 0 -4px 12px #0002; }
@media (min-width: 761px) { .docked #shown { columns: 3; column-gap: 2em; } .docked #shown summary { column-span: all; } .docked #shown section { break-inside: avoid; } }
@media (max-width: 760px) { .docked aside { margin: 1em -.8em 0; padding: 0 .8em; } }
`;
