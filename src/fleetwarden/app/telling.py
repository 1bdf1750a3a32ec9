"""Putting together who tells people: the messenger and its notifier.  Nothing is decided here."""

from __future__ import annotations

from collections.abc import Sequence

from fleetwarden.app.parts import Parts
from fleetwarden.controllers.loop import Subscription
from fleetwarden.controllers.messenger import CADENCE, Messenger

__all__ = ["Telling"]


class Telling:
    """The messenger of one plane."""

    def __init__(self, parts: Parts) -> None:
        self.messenger = Messenger(parts.store, parts.notifier)

    def subscriptions(self) -> Sequence[Subscription]:
        """What runs."""
        return [Subscription(name=CADENCE, interval_s=5.0, run=self.messenger.run, vital=False)]
