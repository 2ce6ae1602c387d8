"""The page's style: light and dark by the reader's choice, wide and narrow, paper."""

from __future__ import annotations

_LIGHT = """--back: #ffffff; --panel: #f7f8fa; --text: #1b1d21; --faint: #5a606b; --line: #dcdfe5; --strong: #b9bec8;
  --run0: #0a5fa8; --run1: #b4500b; --run2: #1d7a46; --run3: #8b3a9e; --run4: #b01e4c; --run5: #4d5a6a;
  --data: #5f7fa8; --good: #1d6f42; --busy: #7a5200; --bad: #b3261e; --link: #0a5fa8;"""
_DARK = """--back: #15171a; --panel: #1d2024; --text: #e7e9ec; --faint: #a2a9b4; --line: #34383f; --strong: #555b66;
  --run0: #6fb3f2; --run1: #f0a15e; --run2: #6fcf97; --run3: #d29be3; --run4: #f58aa9; --run5: #b3bfcd;
  --data: #87a7d0; --good: #7fd6a4; --busy: #f0bd5e; --bad: #ff8a80; --link: #8cc3f7;"""

STYLE = (
    f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
@media print {{ :root {{ color-scheme: light; {_LIGHT} }} }}
"""
    + """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 68rem; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .35rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.8rem 0 .8rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.6rem 0 .6rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; max-width: 46rem; }
a { color: var(--link); }
.lead { font-size: 1rem; margin: 1rem 0; } .lead p { margin: 0; max-width: 58rem; } .lead p + p { margin-top: .3rem; }
.faint, figcaption, .table + p.small:not(.callout),
.table + p.small + p.small:not(.callout) { color: var(--faint); }
.small, figcaption { font-size: .85rem; line-height: 1.45; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .86em; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem;
  overflow-x: auto; line-height: 1.45; margin: .5rem 0; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: 1rem 0 0; font-size: .9rem; }
.callout { border-left: .25rem solid var(--busy); background: var(--panel); padding: .5rem .9rem; margin: .6rem 0;
  border-radius: 0 6px 6px 0; overflow-wrap: anywhere; max-width: none; }
.callout.plain { border: 0; background: none; padding: 0; margin: .4rem 0; }
.callout.bad { border-color: var(--bad); }
.state { white-space: nowrap; font-weight: 600; } .good { color: var(--good); } .busy { color: var(--busy); }
.state.bad { color: var(--bad); }

figure { margin: 0; min-width: 0; } figcaption { margin-top: .35rem; max-width: 46rem; }
figcaption b { color: var(--text); }
.nth { color: var(--text); white-space: nowrap; }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; max-width: none; margin: .2rem 0 1rem; }
figcaption code { color: var(--text); font-size: 1em; white-space: nowrap; }
.piece { white-space: nowrap; }
.grid-of { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 1.8rem 2.2rem;
  margin-top: 1rem; }
.alone { grid-column: 1 / -1; } .single { display: none; }
.stack { display: grid; gap: 1.8rem; align-content: start; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--faint); font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  font-variant-numeric: tabular-nums; }
svg text.title { fill: var(--text); } svg text.end { fill: var(--c); font-weight: 600; }
svg text.name { fill: var(--text); }
svg text.note { fill: var(--faint); font-style: italic; }
svg text.note, svg text.name, svg text.end { paint-order: stroke; stroke: var(--back); stroke-width: 3px;
  stroke-linejoin: round; }
svg .grid { stroke: var(--line); fill: none; } svg .axis { stroke: var(--strong); fill: none; }
svg .rule { stroke: var(--faint); stroke-dasharray: 3 3; fill: none; }
.r0 { --c: var(--run0); } .r1 { --c: var(--run1); } .r2 { --c: var(--run2); } .r3 { --c: var(--run3); }
.r4 { --c: var(--run4); } .r5 { --c: var(--run5); } .data { --c: var(--data); }
svg .line { stroke: var(--c); stroke-width: 2; fill: none; stroke-linejoin: round; }
svg .thin { stroke: var(--c); stroke-width: 1; fill: none; opacity: .55; stroke-linejoin: round; }
svg .band { fill: var(--c); opacity: .15; } svg .bar { fill: var(--c); opacity: .85; }
svg .dots { stroke: var(--c); stroke-width: 4; stroke-linecap: round; opacity: .6; fill: none; }
svg .data .dots { opacity: .9; stroke-width: 5; }
svg .run circle, svg .run rect, svg .run path:not([class]), .swatch circle, .swatch rect, .swatch path:not([class]) {
  fill: var(--back); stroke: var(--c); stroke-width: 1.8; }
svg .beyond { stroke: var(--c); stroke-width: 1.2; fill: none; } svg .bound { stroke: var(--text); fill: none; }
svg .open { stroke: var(--c); stroke-width: 2; fill: none; }
.swatch { display: inline-block; width: 40px; height: 12px; flex: none; }
.narrow { display: none; } .seed { display: none; } .seeds-shown .seed { display: inline; }
.seeds-shown .wide .band, .seeds-shown .narrow .band { opacity: .07; }
.off, .seed.off, tr.off, tr.off-seed { display: none; }

.controls { display: flex; flex-wrap: wrap; gap: .35rem 1.2rem; align-items: center; margin: .6rem 0 1rem; padding: 0;
  border: 0; font-size: .92rem; }
.controls label, .name { display: inline-flex; gap: .5rem; align-items: center; }
.controls span, .name span { overflow-wrap: anywhere; }
.controls input { margin: 0; width: 1.05rem; height: 1.05rem; accent-color: var(--link); flex: none; }
.script, .controls input { display: none; } .js .script { display: flex; }
.js .controls input { display: inline-block; }
input[type=search] { display: block; width: 100%; max-width: 22rem; height: auto; padding: .45rem .7rem; font: inherit;
  color: var(--text); background: var(--back); border: 1px solid var(--strong); border-radius: 6px; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }

.table { overflow-x: auto; margin: .6rem 0 1rem; } .grid-of ~ .table { margin-top: 1.6rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .45rem .8rem .45rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  font-weight: normal; }
thead th { color: var(--faint); font-size: .82rem; border-bottom-color: var(--strong); vertical-align: bottom; }
caption { text-align: left; color: var(--faint); font-size: .85rem; line-height: 1.45; padding: 0 0 .35rem;
  max-width: 46rem; caption-side: top; }
caption b { color: var(--text); }
.callout ul { margin: .2rem 0; } .callout > p { margin: .1rem 0; max-width: none; }
tbody th { min-width: 12rem; } .settings tbody th { min-width: 9rem; }
td:not(.number) { overflow-wrap: anywhere; min-width: 5.5rem; }
td.number { white-space: nowrap; } :is(th, td):last-child { padding-right: 0; }
@media (min-width: 46.01rem), print {
  thead th[data-numbers], td.number { text-align: right; }
  th[data-numbers] + th:not([data-numbers]), td.number + td:not(.number) { padding-left: 1.6rem; }
}
@media (min-width: 46.01rem), print {
  .estimates { table-layout: fixed; } .estimates tbody th, .estimates td:not(.number) { min-width: 0; }
  .estimates th:nth-child(1) { width: 18%; } .estimates th:nth-child(2) { width: 13%; }
  .estimates th:nth-child(3) { width: 11%; } .estimates th:nth-child(6) { width: 11%; }
  .estimates th:nth-child(7) { width: 11%; }
}
.ends { color: var(--faint); white-space: nowrap; }
.settings td { overflow-wrap: anywhere; min-width: 7rem; } .settings th { overflow-wrap: break-word; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;
  text-align: inherit; }
th button::after { content: "\\00a0\\2195"; opacity: .45; }
th[aria-sort=ascending] button::after { content: "\\00a0\\2191"; opacity: 1; }
th[aria-sort=descending] button::after { content: "\\00a0\\2193"; opacity: 1; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .25rem 1.2rem; margin: .6rem 0;
  font-size: .92rem; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--link); padding: .25rem 0; }
summary { font-size: .92rem; }
ul { margin: .4rem 0; padding-left: 1.2rem; } li { overflow-wrap: anywhere; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid var(--line); }

@media screen and (max-width: 57.3rem) { .across { display: none; } .single { display: block; } }
@media screen and (min-width: 46.01rem) and (max-width: 57.3rem) {
  table { font-size: .82rem; } thead th { font-size: .76rem; } th, td { padding-right: .5rem; }
  tbody th { min-width: 6rem; } td:not(.number) { min-width: 4rem; }
}
@media screen and (max-width: 46rem) {
  body { padding: 1.2rem 1rem 3rem; }
  h1 { font-size: 1.4rem; }
  .wide { display: none; } .narrow { display: block; }
  svg text { font-size: 13px; }
  .controls label { min-height: 2rem; }
  .cards thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .cards, .cards caption, .cards tbody, .cards tr, .cards th, .cards td { display: block; }
  .cards tr.off, .cards tr.off-seed, .cards tr[hidden] { display: none; }
  .cards tr { border: 1px solid var(--line); border-radius: 8px; padding: .5rem .8rem; margin: 0 0 .8rem;
    background: var(--panel); }
  .cards th, .cards td { border: 0; padding: .16rem 0; }
  .cards td { display: grid; grid-template-columns: minmax(0, 9.5rem) minmax(0, 1fr); gap: .8rem; white-space: normal;
    overflow-wrap: anywhere; }
  .cards td.absent { display: none; }
  .cards td::before { content: attr(data-label); color: var(--faint); }
  .cards tbody th { font-weight: 600; padding-bottom: .3rem; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  nav, .script, .controls input, th button::after { display: none !important; }
  .grid-of { grid-template-columns: 1fr 1fr; gap: 1rem 1.4rem; } .table { overflow: visible; }
  table { font-size: 8pt; } thead th { font-size: 7.5pt; } td.number { white-space: normal; }
  tbody th { min-width: 6rem; } td:not(.number) { min-width: 3.6rem; }
  dl, summary { font-size: 9pt; } .lead { font-size: 11pt; }
  pre, .small, figcaption, caption { font-size: 8pt; }
  svg text { font-size: 13px; } .wide svg text { font-size: 13px; }
  h2 { margin-top: 1.8rem; } figure, tr, p, dl { break-inside: avoid; }
  h2, h3, .controls, .key, h3 + p, p:has(+ .grid-of), p:has(+ .key) { break-after: avoid; }
  pre { white-space: pre-wrap; } summary { list-style: none; color: var(--text); font-weight: 600; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
)
