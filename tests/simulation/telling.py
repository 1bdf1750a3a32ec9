"""What a failing history tells: its seed, what is wrong, its last steps, and how to have it again."""

from __future__ import annotations

import structlog

from tests.simulation.history import Verdict

__all__ = ["quiet", "told"]

SHOWN = 60


def quiet() -> None:
    """The product's log lines are not wanted: a history writes its own."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


def told(verdict: Verdict) -> str:
    """A failure in words, short enough to read and complete enough to act on."""
    return "\n".join(
        [
            f"seed {verdict.seed} ({verdict.figures['steps']} steps):",
            *(f"  {finding}" for finding in verdict.findings),
            f"its last {min(SHOWN, len(verdict.lines))} lines:",
            *verdict.lines[-SHOWN:],
            f"again, in full: python -m tests.simulation --seed {verdict.seed}",
        ]
    )
