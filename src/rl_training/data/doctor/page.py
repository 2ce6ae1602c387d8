"""A report as one HTML page that needs nothing else: no scripts, no fonts, no pictures from elsewhere."""

from __future__ import annotations

from html import escape

from rl_training.data.doctor.facts_in_words import fact_lines
from rl_training.data.doctor.findings import LEVELS, Distribution, Finding, Report
from rl_training.data.doctor.text import bin_names, worth_drawing

_HEADINGS = {"error": "Errors", "warning": "Warnings", "note": "Notes"}
_MEANINGS = {
    "error": "The data would be refused, or trained on wrongly.",
    "warning": "Probably wrong.",
    "note": "Worth knowing.",
}

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c1c1e; --faint: #5c5f66; --line: #d9dce1; --bar: #3b6fb6;
  --error: #b3261e; --warning: #8a5a00; --note: #3b6fb6; --good: #1d6f42; }
@media (prefers-color-scheme: dark) { :root { --back: #17181b; --text: #e6e7ea; --faint: #a3a7af; --line: #383b42;
  --bar: #7ba7e0; --error: #ff8a80; --warning: #f0bd5e; --note: #8fb6ea; --good: #7fd6a4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 54rem; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; margin: 0 0 .5rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.verdict { font-weight: 600; padding: .5rem .8rem; border-left: .3rem solid; }
dl { display: grid; grid-template-columns: 9rem 1fr; gap: .3rem 1rem; margin: 1rem 0; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1.5rem; }
figure { margin: 0; } figcaption { font-weight: 600; margin-bottom: .3rem; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--faint); font: 11px system-ui, sans-serif; }
svg rect { fill: var(--bar); }
ul { list-style: none; margin: 0; padding: 0; }
li { border-left: .3rem solid; padding: .1rem .8rem; margin: 0 0 1rem; overflow-wrap: anywhere; }
li p { color: var(--text); margin: .2rem 0; } li .advice, .meaning, code { color: var(--faint); }
code { font-size: .85em; } .meaning { margin: 0 0 .7rem; }
.error { color: var(--error); } .warning { color: var(--warning); } .note { color: var(--note); }
.good { color: var(--good); }
table { border-collapse: collapse; } td, th { border-bottom: 1px solid var(--line); padding: .2rem .8rem .2rem 0;
  text-align: left; font-weight: normal; }
@media (max-width: 32rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .6rem; } }
"""


def report_page(report: Report, title: str) -> str:
    """The page; every string that comes from the data is escaped."""
    kind = "error" if not report.ok else "warning" if report.at("warning") else "good"
    facts = "".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in fact_lines(report.facts))
    shapes = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(shape)}</td></tr>" for name, shape in report.facts.fields.items()
    )
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="verdict {kind}">{escape(report.verdict())}</p>',
        f"<dl>{facts}</dl>",
        _plots(report),
        *(_section(level, report.at(level)) for level in LEVELS),
        f"<h2>Fields of the file</h2><table>{shapes}</table>" if shapes else "",
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body>\n</html>\n"
    )


def _section(level: str, findings: list[Finding]) -> str:
    if not findings:
        return ""
    items = "".join(_item(finding) for finding in findings)
    heading = f'<h2 class="{level}">{_HEADINGS[level]} ({len(findings)})</h2>'
    return f'{heading}<p class="meaning">{_MEANINGS[level]}</p><ul>{items}</ul>'


def _item(finding: Finding) -> str:
    where = str(finding.place)
    if where:
        where = f" {'First at' if finding.count is not None and finding.count > 1 else 'At'} {where}."
    advice = f'<p class="advice">{escape(finding.advice)}</p>' if finding.advice else ""
    what = f"<p><strong>{escape(finding.field)}</strong>: {escape(finding.what)}{escape(where)}</p>"
    return f'<li class="{finding.level}">{what}{advice}<code>{escape(finding.code)}</code></li>'


def _plots(report: Report) -> str:
    facts = report.facts.in_own_sign()
    drawn = (
        (f"{'Costs' if facts.costs else 'Returns'} by episode", facts.returns),
        ("Rows per episode", facts.lengths),
    )
    figures = [_histogram(title, values) for title, values in drawn if values is not None and worth_drawing(values)]
    return f'<div class="plots">{"".join(figures)}</div>' if figures else ""


def _histogram(title: str, values: Distribution) -> str:
    """Horizontal bars, which leave room for the range of each."""
    names = [" ".join(name.split()) for name in bin_names(values)]  # no padding on a page
    row, width = 18, 380
    left = 14 + 6 * max(map(len, names))  # six units hold a digit of the labels' size
    room = width - left - 50
    bars = []
    for i, (name, count) in enumerate(zip(names, values.counts, strict=True)):
        long = room * count / max(values.counts)
        y = i * row
        bars.append(
            f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{left}" y="{y + 3}" width="{max(long, 1.0 if count else 0.0):.1f}" height="{row - 5}" rx="2"/>'
            f'<text x="{left + long + 6:.1f}" y="{y + 13}">{count:,}</text>'
        )
    height = row * len(names)
    label = escape(f"{title}: {'; '.join(f'{n}: {c}' for n, c in zip(names, values.counts, strict=True))}")
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="{label}">{"".join(bars)}</svg></figure>'
    )
