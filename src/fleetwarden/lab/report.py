"""A backtest as a page: one file without a script, and with nothing from elsewhere, to be sent and kept."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from fleetwarden.domain.identifiers import SECOND
from fleetwarden.lab.backtest import Backtest
from fleetwarden.lab.comparison import Comparison, cost_of
from fleetwarden.lab.picture import picture

__all__ = ["lines", "page", "span_words"]

ACTIONS_SHOWN = 200
_STYLE = """
:root{color-scheme:light dark;--ink:#1c2128;--soft:#656d76;--line:#d0d7de;--paper:#fff;--need:#d8dee4;--count:#0969da;
--up:#1a7f37;--down:#9a6700;--short:#cf222e}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;--paper:#0d1117;--need:#343b44;
--count:#4493f8;--up:#3fb950;--down:#d29922;--short:#f85149}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:2rem auto;max-width:64rem;
padding:0 1rem}
h1{font-size:1.5rem;margin:0 0 .2rem}h2{font-size:1.1rem;margin:2rem 0 .4rem}p,li{color:var(--soft)}
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
td,th{padding:.25rem 1rem .25rem 0;border-bottom:1px solid var(--line);text-align:right;font-weight:400}
th:first-child,td:first-child{text-align:left;color:var(--soft)}thead th{color:var(--ink);font-weight:600}
code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.grid{stroke:var(--line);stroke-width:.6;fill:none}.need{fill:var(--need)}
.band{fill:var(--count);opacity:.35}.count{fill:none;stroke:var(--count);stroke-width:1.6}
.blind{fill:var(--soft);opacity:.18}.short{fill:var(--short)}
.up{stroke:var(--up);stroke-width:1.4}.down{stroke:var(--down);stroke-width:1.4}
.key span{display:inline-block;margin-right:1.2rem}
.key i{display:inline-block;width:.9rem;height:.7rem;margin-right:.4rem}
"""
_KEY = (
    ("need", "what the load needed"),
    ("count", "replicas"),
    ("short", "fewer than needed"),
    ("up", "a change up"),
    ("down", "a change down"),
    ("soft", "no sample"),
)


def span_words(seconds: float) -> str:
    """`45 s`, `12 min`, `3.4 h`, `2.1 d`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} d"


def _short(run: Backtest, seconds: float) -> str:
    share = 100 * run.short_s / seconds if seconds else 0.0
    return f"{span_words(run.short_s)} ({share:.1f} %)"


_LINES: Sequence[tuple[str, Callable[[Backtest, float], str]]] = (
    ("replica-hours", lambda run, _: f"{run.replica_hours:,.1f}"),
    ("replicas", lambda run, _: f"{run.lowest} to {run.highest}"),
    ("under-provisioned", _short),
    ("  of that, at the block's max", lambda run, _: span_words(run.at_max_s)),
    ("  replica-hours that lacked", lambda run, _: f"{run.short_replica_hours:,.1f}"),
    ("idle replica-hours", lambda run, _: f"{run.idle_replica_hours:,.1f}"),
    ("changes up", lambda run, _: f"{run.ups:,}"),
    ("changes down", lambda run, _: f"{run.downs:,}"),
    ("reversals", lambda run, _: f"{run.reversals:,}"),
    ("cost", lambda run, _: "–" if (price := cost_of(run)) is None else f"{price:,}"),
)


def lines(found: Comparison) -> list[list[str]]:
    """The figures as rows: what it is, then one cell for each block; a row that says nothing of any is left out."""
    rows = [[words, *(tell(run, found.seconds) for _, run in found.runs)] for words, tell in _LINES]
    return [row for row in rows if any(cell != "–" for cell in row[1:])]


def page(found: Comparison) -> str:
    """The HTML."""
    title = f"Backtest of {found.service}"
    ticks = found.load.ticks
    top = max(1, int(found.load.needed.max()), *(run.highest for _, run in found.runs))
    heads = "".join(f"<th>{html.escape(name)}</th>" for name, _ in found.runs)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell.strip())}</td>" for cell in row) + "</tr>" for row in lines(found)
    )
    key = "".join(f'<span><i style="background:var(--{colour})"></i>{words}</span>' for colour, words in _KEY)
    sections = "".join(_section(found, name, run, top) for name, run in found.runs)
    notes = "".join(f"<li>{html.escape(one)}</li>" for one in found.notes)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1>"
        f"<p>{html.escape(found.source)}: {_utc(int(ticks.times[0]))} to {_utc(int(ticks.times[-1]))} UTC"
        f" ({span_words(found.seconds)}), a tick every {ticks.step_us / SECOND:g} s,"
        f" {found.empty_ticks:,} of {len(ticks.times):,} without a sample</p>"
        f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        f'<p class="key">{key}</p>{sections}<h2>To be read with</h2><ul>{notes}</ul></body></html>\n'
    )


def _section(found: Comparison, name: str, run: Backtest, top: int) -> str:
    block = html.escape(", ".join(f"{key}: {_written(value)}" for key, value in run.block.raw.items()))
    return f"<h2>{html.escape(name)}</h2><code>{{{block}}}</code>{picture(name, found.load, run, top)}{_actions(run)}"


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_written(one)}" for key, one in value.items()) + "}"
    return "[" + ", ".join(map(_written, value)) + "]" if isinstance(value, list) else str(value)


def _actions(run: Backtest) -> str:
    if not run.actions:
        return "<p>No change.</p>"
    shown = run.actions[:ACTIONS_SHOWN]
    rows = "".join(f"<tr><td>{_utc(one.at)}</td><td>{one.before} → {one.after}</td></tr>" for one in shown)
    more = len(run.actions) - len(shown)
    rest = f"<p>and {more:,} more: --json has all of them</p>" if more else ""
    return (
        f"<details><summary>{len(run.actions):,} changes</summary><table><thead><tr><th>UTC</th><th>replicas</th></tr>"
        f"</thead><tbody>{rows}</tbody></table>{rest}</details>"
    )


def _utc(at: int) -> str:
    return f"{datetime.fromtimestamp(at / SECOND, UTC):%Y-%m-%d %H:%M:%S}"
