import { BODY_STYLE, THEME } from './body.js';
import { STATE_STYLE } from './state-panel.js';

/**
 * Returns the style sheet that shows the rows in this scope as a conversation, for narrow diagrams: each message is a
 * bubble at the side of its sender.
 */
function conversation(scope: string): string {
  const rules = [
    '.diagram { width: auto; }',
    '.row { display: block; padding: .25em 0; }',
    '.row svg { display: none; }',
    '.heads { display: none; }',
    '.row > .state { display: none; }',
    '.at { display: block; text-align: left; }',
    '.gap { margin-left: 0; }',
    '.bubble { display: block; width: fit-content; max-width: 85%; padding: .4em .8em; border-radius: 10px; background: var(--panel); border: 1px solid var(--rule); overflow-wrap: anywhere; }',
    '.bubble.received { margin-left: auto; }',
    '.bubble small { display: block; color: var(--soft); }',
    '.bubble.failure { border-color: var(--bad); color: var(--bad); }',
    '.bubble.held { border-color: var(--good); color: var(--good); font-weight: 700; }',
    '.body { margin-left: 0; }',
    '.verdict { display: block; text-align: left; width: auto; margin: .2em 0 0 auto; padding: 0 .8em; max-width: 85%; box-sizing: border-box; }',
  ];
  return rules.map((rule) => scope + rule).join('\n');
}

/** Style sheet of the page. */
export const STYLE = `${THEME}${BODY_STYLE}${STATE_STYLE}
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2em auto; max-width: 1760px; padding: 0 1.5em; }
h1 { font-size: 1.3em; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1em; margin: 1.5em 0 .4em; }
header p { color: var(--soft); margin: .2em 0 0; }
.problems { margin: 1em 0; padding: .6em 1em; background: var(--panel); border-radius: 6px; }
.queue svg { max-width: 100%; height: auto; }
.queue text { font-size: 12px; fill: var(--on); } .queue .name { fill: var(--ink); text-anchor: end; }
.queue .axis { fill: var(--soft); font-size: 11px; } .queue .end { text-anchor: end; }
.queue rect { rx: 3; fill: var(--other); } .queue rect.own { fill: var(--own); }
.queue rect.waits { fill-opacity: .25; } .queue rect.waits + text { fill: var(--ink); }
label { color: var(--soft); }
.cursor { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 3 2; }
.legend { margin: .8em 0; color: var(--soft); } .legend ul { margin: .3em 0; } .legend .own { color: var(--own); } .legend .other { color: var(--other); } .legend .bad { color: var(--bad); } .legend .good { color: var(--good); } .legend .tag { color: var(--tag); } .legend .length { color: var(--length); }
.controls { display: flex; flex-wrap: wrap; gap: .4em 1.2em; align-items: center; margin: .8em 0; } #scrubber { width: 16em; max-width: 60vw; vertical-align: middle; }
#moment { font-variant-numeric: tabular-nums; } select { font: inherit; }
.gap { margin-left: 84px; color: var(--soft); font-size: 11px; display: flex; align-items: center; padding-left: .8em; border-left: 2px dotted var(--rule); }
[data-ms].now, .now > summary { background: var(--lit); } .filtered { display: none; }
.comparison { margin: 1em 0; } .comparison th { text-align: left; font-weight: 500; padding: .1em 1em .1em 0; } .comparison td { text-align: right; padding: .1em 1em .1em 0; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 2em; padding: 0 .5em; border-left: 4px solid transparent; } .pair.differs { border-left-color: var(--bad); background: var(--panel); scroll-margin-top: 4em; } .pair .side { min-width: 0; }
.pair.differs .bubble { background: var(--paper); } .pair.names { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--rule); z-index: 1; } .pair .both { display: block; } .pair .both table { margin-top: .8em; } .pair .body { overflow-x: auto; }
.diagram.beside { width: auto; } .differences { margin: .8em 0 0; } .differences a { color: var(--own); }
.diagram { border-top: 1px solid var(--rule); margin-top: .6em; width: max-content; min-width: 100%; }
.row { display: grid; grid-template-columns: 84px max-content; align-items: center; list-style: none; }
.queued .row { grid-template-columns: 84px max-content minmax(140px, 1fr); } .diagram:not(.queued) .state { display: none; }
.row::-webkit-details-marker { display: none; }
details summary { cursor: pointer; } details summary:hover { background: var(--hover); }
.heads { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--rule); z-index: 1; }
.heads text { text-anchor: middle; font-weight: 600; fill: var(--ink); } .heads .key { font-weight: 400; font-size: 11px; fill: var(--soft); }
.heads .state { color: var(--soft); }
.at { color: var(--soft); font-size: 12px; text-align: right; padding-right: 12px; font-variant-numeric: tabular-nums; }
svg { display: block; } .life { stroke: var(--rule); stroke-width: 2; }
g line, g path { stroke: var(--own); stroke-width: 1.6; fill: none; } g text { text-anchor: middle; font-size: 12px; fill: var(--ink); }
g text.protocol { fill: var(--soft); font-size: 11px; }
g.failure line, g.failure path { stroke: var(--bad); } g.failure text:not(.protocol) { fill: var(--bad); font-weight: 600; }
g.held circle { fill: var(--good); } g text.badge { text-anchor: start; fill: var(--good); font-weight: 700; }
g.seen line, g.seen path { stroke: var(--other); } g.seen line { stroke-dasharray: 5 4; }
g.frame line, g.frame path { stroke: var(--soft); } g.frame text { fill: var(--soft); font-size: 11px; }
.fault { color: var(--bad); margin: .3em 0; } #fault-form { display: flex; flex-wrap: wrap; gap: .8em; padding: .5em 0; } #fault-problem { color: var(--bad); }
.state { white-space: nowrap; } .state b { font-size: 11px; font-weight: 500; padding: 1px 8px; border: 1px solid var(--other); border-radius: 9px; color: var(--on); background: var(--other); }
.state b.own { background: var(--own); border-color: var(--own); } .state b.waits { background: none; color: var(--ink); }
.state b.first::before { content: "holds: "; }
.bubble { display: none; }
.frame { display: none; } body:has(#frames:checked) .diagram .frame:not(.filtered) { display: block; } body:has(#frames:checked) .diagram g.frame { display: inline; }
.diagram .row.frame { display: none; } body:has(#frames:checked) .diagram .row.frame:not(.filtered) { display: grid; }
.diagram g.frame { display: inline; }
.body { margin: .2em 0 1em 84px; contain: inline-size; }
.verdict { grid-column: 2; justify-self: end; width: 480px; margin-right: 90px; padding-bottom: .6em; font-size: 12px; text-align: center; }
.verdict b { color: var(--bad); }
#columns .both { display: block; } #columns .both table { margin-top: .8em; }
.docked:not(:has(.beside)) #columns .both { display: grid; }
${conversation('.beside ')}
@media (max-width: 760px) {
  body { margin: 1em auto; padding: 0 .8em; } .pair { gap: .6em; }
  ${conversation('')}
}
`;
