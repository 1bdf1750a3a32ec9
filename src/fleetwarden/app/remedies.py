"""Putting together what follows an action and what begins with an alert: watches and notices.

A list of compositions, each in a module of its own.  Nothing is decided here; that a kind of work has one handler and
a pass one name is all that it must keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleetwarden.app.parts import Parts
from fleetwarden.app.telling import Telling
from fleetwarden.app.watching import Watching
from fleetwarden.controllers.loop import Subscription
from fleetwarden.controllers.worker import Handler

__all__ = ["Remedies"]


class Remedies:
    """The watches and the notices of one plane."""

    def __init__(self, parts: Parts) -> None:
        self.watching = Watching(parts)
        self.telling = Telling(parts)

    def handlers(self) -> Mapping[str, Handler]:
        """Who does a step, by the kind of work; the steps of watches have a pass of their own."""
        return {}

    def subscriptions(self) -> Sequence[Subscription]:
        """What runs."""
        return [*self.watching.subscriptions(), *self.telling.subscriptions()]
