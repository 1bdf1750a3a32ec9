"""A backtest as a page: one file, no script and nothing from elsewhere.  Demand and replicas over time, and the sums."""

from __future__ import annotations

import html
from collections.abc import Sequence

from fleetwarden.lab.backtest import Backtest

__all__ = ["page"]

WIDTH, HEIGHT, LEFT, POINTS = 960, 260, 50, 1200
_COLOURS = ("#1f6feb", "#d29922", "#8957e5", "#2da44e")


def page(service: str, times: Sequence[float], runs: Sequence[tuple[str, Backtest]]) -> str:
    """The HTML of one or more runs of the same recording."""
    title = f"Backtest of {service}"
    rows = "".join(_row(name, run) for name, run in runs)
    heads = "".join(f"<th>{one}</th>" for one in (
        "block", "changes up", "changes down", "reversals", "replica-hours", "under-provisioned", "over-provisioned",
        "without a sample",
    ))  # fmt: skip
    pictures = "".join(f"<h2>{html.escape(name)}</h2>{_picture(times, run)}" for name, run in runs)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        "<style>body{font:15px system-ui;margin:2rem;max-width:70rem}table{border-collapse:collapse}"
        "td,th{padding:.3rem .8rem;border-bottom:1px solid #ccc;text-align:right}td:first-child,th:first-child"
        "{text-align:left}svg{max-width:100%;background:#fafafa;border:1px solid #ddd}</style>"
        f"<h1>{html.escape(title)}</h1><table><tr>{heads}</tr>{rows}</table>{pictures}"
        "<p>Blue: replicas. Grey: what the load needed. A change is carried out at once here; a real fleet takes time to"
        " start.</p></html>"
    )


def _row(name: str, run: Backtest) -> str:
    cells = (
        html.escape(name), run.ups, run.downs, run.reversals, f"{run.replica_hours:,.1f}",
        _span(run.under_provisioned_s), _span(run.over_provisioned_s), _span(run.no_sample_s),
    )  # fmt: skip
    return "<tr>" + "".join(f"<td>{one}</td>" for one in cells) + "</tr>"


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def _picture(times: Sequence[float], run: Backtest) -> str:
    top = max(1, *run.replicas, *run.needed)
    began, ended = times[0], times[-1]
    width = (ended - began) or 1.0

    def path(counts: Sequence[int]) -> str:
        step = max(1, len(counts) // POINTS)
        points, last = [], None
        for place in range(0, len(counts), step):
            part = [one for one in counts[place : place + step] if one >= 0]
            if not part:
                last = None
                continue
            x = LEFT + (times[place] - began) / width * (WIDTH - LEFT - 10)
            y = HEIGHT - 25 - max(part) / top * (HEIGHT - 45)
            points.append(f"{'M' if last is None else 'H'}{x:.1f}{f',{y:.1f}' if last is None else f'V{y:.1f}'}")
            last = y
        return " ".join(points)

    marks = "".join(
        f'<text x="5" y="{HEIGHT - 21 - n / top * (HEIGHT - 45):.1f}" font-size="12">{n}</text>'
        for n in sorted({0, top // 2, top})
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="replicas and need over time">{marks}'
        f'<path d="{path(run.needed)}" fill="none" stroke="#aaa" stroke-width="1"/>'
        f'<path d="{path(run.replicas)}" fill="none" stroke="{_COLOURS[0]}" stroke-width="1.6"/></svg>'
    )
