/** Of the page of a trace. */
export const STYLE = `
:root { color-scheme: light; --ink: #1d2733; --soft: #6b7785; --rule: #d8dee5; --own: #1668c1; --other: #b4570f; }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); margin: 2em auto; max-width: 1400px; padding: 0 1.5em; }
h1 { font-size: 1.3em; margin: 0; } h2 { font-size: 1em; margin: 1.5em 0 .4em; }
header p { color: var(--soft); margin: .2em 0 0; }
.queue text { font-size: 12px; fill: #fff; } .queue .name { fill: var(--ink); text-anchor: end; }
.queue .axis { fill: var(--soft); font-size: 11px; } .queue .end { text-anchor: end; }
.queue rect { rx: 3; fill: var(--other); } .queue rect.own { fill: var(--own); }
.queue rect.waits { fill-opacity: .25; } .queue rect.waits + text { fill: var(--ink); }
label { color: var(--soft); }
.diagram { border-top: 1px solid var(--rule); margin-top: .6em; overflow-x: auto; }
.row { display: grid; grid-template-columns: 84px max-content minmax(180px, 1fr); align-items: center; list-style: none; }
.row::-webkit-details-marker { display: none; }
details summary { cursor: pointer; } details summary:hover { background: #f3f6f9; }
.heads { position: sticky; top: 0; background: #fff; border-bottom: 1px solid var(--rule); z-index: 1; }
.heads text { text-anchor: middle; font-weight: 600; } .heads .key { font-weight: 400; font-size: 11px; fill: var(--soft); }
.heads .line { color: var(--soft); }
.at { color: var(--soft); font-size: 12px; text-align: right; padding-right: 12px; font-variant-numeric: tabular-nums; }
svg { display: block; } .life { stroke: var(--rule); stroke-width: 2; }
g line, g path { stroke: var(--own); stroke-width: 1.6; fill: none; } g text { text-anchor: middle; font-size: 12px; fill: var(--ink); }
g.seen line, g.seen path { stroke: var(--other); } g.seen line { stroke-dasharray: 5 4; }
g.frame line, g.frame path { stroke: #aab4bf; } g.frame text { fill: var(--soft); font-size: 11px; }
.line { white-space: nowrap; } .line b { font-size: 11px; font-weight: 500; padding: 1px 8px; border-radius: 9px; color: #fff; background: var(--other); }
.line b.own { background: var(--own); } .line b.waits { opacity: .4; } .line b.first::before { content: "holds: "; }
.frame { display: none; } #frames:checked ~ .diagram .frame { display: block; } #frames:checked ~ .diagram g.frame { display: inline; }
.diagram g.frame { display: inline; }
.body { margin: .2em 0 1em 84px; padding: .6em 1em; background: #f6f8fa; border-radius: 6px; font-size: 13px; }
.body p { margin: 0 0 .5em; color: var(--soft); overflow-wrap: anywhere; } .both { display: grid; grid-template-columns: minmax(16em, 2fr) 4fr; gap: 2em; align-items: start; }
pre { margin: 0; font-size: 12px; white-space: pre-wrap; overflow-wrap: anywhere; } table { border-collapse: collapse; font-size: 12px; } td { padding: 0 .5em; vertical-align: top; }
td:first-child { color: var(--soft); text-align: right; } td code { overflow-wrap: anywhere; } td:nth-child(2) { width: 40%; } tr.tag code { color: var(--own); } tr.length code { color: #8a5a00; } tr.value code { color: #146c2e; }
`;
