/**
 * A script that filters the rows and moves through time. A live page calls its function `refresh` after each change.
 */
export const PAGE_SCRIPT = `
const byId = (id) => document.getElementById(id);
let rows = [];
const chosen = { hidden: new Set(), stream: '', now: undefined };
function filter() {
  for (const row of rows) {
    const { kind, stream } = row.dataset;
    const isOff = kind !== undefined && (chosen.hidden.has(kind) || (chosen.stream !== '' && chosen.stream !== stream));
    row.classList.toggle('filtered', isOff);
  }
}
function moveTo(row) {
  for (const now of document.querySelectorAll('.now')) now.classList.remove('now');
  row.classList.add('now');
  chosen.now = row.dataset.key;
  byId('moment').textContent = (row.dataset.ms / 1000).toFixed(3) + ' s';
  for (const chart of document.querySelectorAll('.queue svg')) {
    const x = Number(chart.dataset.zero) + row.dataset.ms * chart.dataset.scale;
    const cursor = chart.querySelector('.cursor');
    cursor.setAttribute('x1', x);
    cursor.setAttribute('x2', x);
    cursor.setAttribute('visibility', 'visible');
  }
  showState(row);
}
function stepBy(count) {
  const shown = rows.filter((row) => row.checkVisibility());
  const at = shown.findIndex(({ dataset }) => dataset.key === chosen.now);
  const next = shown[Math.min(shown.length - 1, Math.max(0, at + count))];
  if (next === undefined) return;
  moveTo(next);
  byId('scrubber').value = rows.indexOf(next);
  const { scrollX } = window;
  next.scrollIntoView({ block: 'center' });
  scrollTo(scrollX, scrollY);
}
function refresh() {
  rows = [...document.querySelectorAll('.diagram [data-ms]')];
  const names = JSON.parse(document.querySelector('[data-names]').dataset.names);
  const groups = names.map((name, trace) => {
    const own = rows.filter(({ dataset }) => dataset.stream?.startsWith(trace + ' '));
    const streams = new Map(own.map(({ dataset }) => [dataset.stream, dataset.kind]));
    const options = [...streams].map(([stream, kind]) => {
      const [, connection, id] = /^\\d+ (\\d+):(\\d+)$/.exec(stream);
      return new Option(id === '0' ? 'connection ' + connection : connection + ':' + id + ' ' + kind, stream);
    });
    if (names.length === 1) return options;
    const group = document.createElement('optgroup');
    group.label = name;
    group.append(...options);
    return group;
  });
  byId('stream').replaceChildren(new Option('all', ''), ...groups.flat());
  byId('stream').value = chosen.stream;
  byId('scrubber').max = Math.max(0, rows.length - 1);
  filter();
  placePanel();
  showState(rows.find(({ dataset }) => dataset.key === chosen.now));
}
document.addEventListener('click', ({ target }) => {
  const row = target.closest('.diagram [data-ms]');
  if (row === null) return;
  moveTo(row);
  byId('scrubber').value = rows.indexOf(row);
});
document.addEventListener('keydown', (event) => {
  const count = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const isPlain = !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (count === undefined || !isPlain || event.target.closest('input, select, textarea, aside') !== null) return;
  event.preventDefault();
  stepBy(count);
});
document.addEventListener('input', ({ target }) => {
  if (target.id === 'stream') chosen.stream = target.value;
  else if (target.dataset.show) chosen.hidden[target.checked ? 'delete' : 'add'](target.dataset.show);
  else if (target.id === 'scrubber') {
    const shown = rows.slice(0, Number(target.value) + 1).findLast((row) => row.checkVisibility());
    if (shown) moveTo(shown);
    shown?.scrollIntoView({ block: 'center', inline: 'nearest' });
    return;
  }
  filter();
});
`;

/** A script that replaces the changing parts of the page when the server reports a change. Open rows stay open. */
export const LIVE_SCRIPT = `
const source = new EventSource('changes');
let latest = 0;
let isOver = false;
source.onerror = () => {
  source.close();
  if (!isOver) document.querySelector('header p').textContent = 'etcdwire has ended, and this page does not show its last state.';
};
source.onmessage = async ({ data }) => {
  isOver = data === 'end';
  if (isOver) source.close();
  const number = ++latest;
  const response = await fetch('content?' + data).catch(() => undefined);
  const html = await response?.text();
  if (html === undefined || number !== latest) return;
  const content = new DOMParser().parseFromString(html, 'text/html');
  const open = new Set([...document.querySelectorAll('.diagram details[open]')].map(({ dataset }) => dataset.key));
  const focused = document.activeElement?.closest('[data-key]')?.dataset.key;
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
  for (const id of ['summary', 'faults', 'messages']) byId(id).replaceChildren(...content.getElementById(id).childNodes);
  refresh();
  for (const row of rows) {
    if (open.has(row.dataset.key)) row.open = true;
    if (row.dataset.key === chosen.now) {
      moveTo(row);
      byId('scrubber').value = rows.indexOf(row);
    }
    if (row.dataset.key === focused) row.querySelector('summary').focus({ preventScroll: true });
  }
  if (isAtEnd) scrollTo(0, document.documentElement.scrollHeight);
};
`;

/** A script that sends the faults of a proxy to the server after a change in the form or a click on a button. */
export const FAULTS_SCRIPT = `
async function setFaults(faults) {
  const response = await fetch('faults', { method: 'POST', body: faults.join('\\n') });
  byId('fault-problem').textContent = response.ok ? '' : await response.text();
}
const faultsOn = () => [...document.querySelectorAll('[data-fault]')].map(({ dataset }) => dataset.fault);
byId('fault-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const { kind, duration, rpc, prefix, times } = Object.fromEntries(new FormData(event.target));
  const words = [duration ? kind + '=' + duration : kind];
  for (const [name, value] of Object.entries({ rpc, prefix, times })) if (value) words.push(name + '=' + value);
  setFaults([...faultsOn(), words.join(' ')]);
});
document.addEventListener('click', ({ target }) => {
  const { fault } = target.dataset;
  if (fault !== undefined) setFaults(faultsOn().filter((each) => each !== fault));
});
`;
