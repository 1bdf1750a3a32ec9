"""What happened, line by line and in one order: for the auditor, for a person who replays a seed, and for the digest
that shows that a seed repeats."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Any

from tests.simulation.auditor import Event

__all__ = ["Journal"]

KEPT = 120


class Journal:
    """Numbers every event.  `lines` holds the last of them, or all if `whole`."""

    def __init__(self, *, whole: bool) -> None:
        self.lines: deque[str] = deque(maxlen=None if whole else KEPT)
        self.events: list[Event] = []
        self.step = 0
        self._digest = hashlib.sha256()

    def tick(self, line: str) -> int:
        """A new step, for something that another record tells in full."""
        self.step += 1
        self._line(line)
        return self.step

    def event(self, kind: str, /, **data: Any) -> None:
        self.step += 1
        self.events.append(Event(self.step, kind, data))
        self._line(f"{kind} {' '.join(f'{name}={value}' for name, value in data.items())}")

    def line(self, text: str) -> None:
        """Something worth reading that no rule is about."""
        self._line(text)

    def digest(self) -> str:
        return self._digest.hexdigest()

    def _line(self, text: str) -> None:
        self._digest.update(text.encode())
        self.lines.append(f"{self.step:5d}  {text}")
