"""Putting together what begins with an event: who keeps it, and who takes the step that follows.  Nothing is decided
here."""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.app.parts import Parts
from fleetwarden.controllers.worker import Handler

__all__ = ["EventIntake"]


class EventIntake:
    """The events of one plane."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def handlers(self) -> Mapping[str, Handler]:
        """Who does a step, by the kind of work."""
        return {}
