"""Putting together what follows an action and what begins with an alert: watches, notices, and the breaker of storms.

A list of compositions, each in a module of its own.  Nothing is decided here; that a kind of work has one handler and
a pass one name is all that it must keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleetwarden.app.event_intake import EventIntake
from fleetwarden.app.outside import OutsideActions
from fleetwarden.app.parts import Parts
from fleetwarden.app.playbooks import Playbooks
from fleetwarden.app.rollout_gates import RolloutGates
from fleetwarden.app.storms import StormDesk
from fleetwarden.app.telling import Telling
from fleetwarden.app.watch_views import Quarantining
from fleetwarden.app.watching import Watching
from fleetwarden.controllers.loop import Subscription
from fleetwarden.controllers.worker import Handler
from fleetwarden.domain.fleet import Fleet

__all__ = ["Remedies"]


class Remedies:
    """What stands around the actions of one plane."""

    def __init__(self, parts: Parts) -> None:

        def fleet() -> Fleet:
            return parts.configuration.current().last_good_fleet

        self.storms = StormDesk(parts.store, fleet)
        self.quarantining = Quarantining(parts.store, fleet, parts.wakes)
        self.watching = Watching(parts)
        self.events = EventIntake(parts)
        self.playbooks = Playbooks(parts)
        self.outside = OutsideActions(parts)
        self.gates = RolloutGates(parts, self.outside.desk)
        self.telling = Telling(parts)

    def handlers(self) -> Mapping[str, Handler]:
        """Who does a step, by the kind of work; the steps of watches have a pass of their own."""
        return self.playbooks.handlers()

    def subscriptions(self) -> Sequence[Subscription]:
        """What runs."""
        parts = (self.watching, self.telling, self.events, self.outside)
        return [one for part in parts for one in part.subscriptions()]

    def warnings(self) -> list[str]:
        """What an operator should know of the files that are read here."""
        return [*self.telling.views.warnings(), *self.playbooks.warnings()]

    def refresh(self) -> bool:
        """Look again at the files that are read here; returns whether what is in force changed."""
        changed = [self.telling.file.refresh(), self.playbooks.file.refresh()]
        return any(changed)

    def close(self, *, wait: bool) -> None:
        """Let what is in flight end."""
        self.telling.close(wait=wait)
