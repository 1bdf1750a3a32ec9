"""`lab`: scaling on load, shown by a real plane in a world of fakes.

Touches a temporary folder and nothing else; whatever runs here is not asked.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

from fleetwarden.cli.calling import Call, unconnected
from fleetwarden.cli.durations import spelled

__all__ = ["lab"]


@unconnected
def lab(call: Call) -> None:
    """Show how a count follows load, step by step: a real plane, a clock set by hand.  Exit 1 if a step differs."""
    from fleetwarden.lab.walkthrough import Step, walk

    screen, chapter = call.screen, [""]

    def tell(step: Step) -> None:
        if call.as_json:
            return
        if step.chapter != chapter[0]:
            chapter[0] = step.chapter
            screen.line()
            screen.line(step.chapter)
        mark, tone = ("✓", "good") if step.ok else ("×", "bad")
        told = step.seen if step.ok else f"{step.seen}, expected was {step.expected}"
        screen.line(
            f"  {mark} {'+' + spelled(step.at):<12}  {step.what}  →  {told}", indent=18, tone="" if step.ok else tone
        )
        screen.flush()

    call.progress("plane, policy, ledger and autoscaler are real; clock, signals and replicas are set by hand")
    with tempfile.TemporaryDirectory(prefix="fleetwarden-lab-") as folder:
        steps = walk(Path(folder), tell)
    wrong = sum(not one.ok for one in steps)
    if call.as_json:
        call.show_json({"ok": not wrong, "steps": [{**one._asdict(), "ok": one.ok} for one in steps]})
    else:
        screen.line()
        told = f"all {len(steps)} steps as expected" if not wrong else f"{wrong} of {len(steps)} steps differ"
        screen.line(told, tone="bad" if wrong else "good")
    if wrong:
        raise typer.Exit(1)
