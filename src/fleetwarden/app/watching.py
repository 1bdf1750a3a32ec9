"""Putting the watches together: who looks at a service after something was done to it.  Nothing is decided here."""

from __future__ import annotations

from collections.abc import Sequence

from fleetwarden.app.autoscaling import patience_of
from fleetwarden.app.parts import Parts
from fleetwarden.controllers import deploy_watch
from fleetwarden.controllers.deploy_watch import DeployWatches, Terms
from fleetwarden.controllers.intent_desk import IntentDesk
from fleetwarden.controllers.loop import Subscription
from fleetwarden.controllers.watch_follow_up import WatchFollowUp
from fleetwarden.domain.actions import LeaseFence

__all__ = ["Watching"]

STEP_S = 1.0  # how often due steps are looked for


class Watching:
    """The watches of one plane."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        settings = parts.settings
        self.follow_up = WatchFollowUp(
            parts.store,
            parts.configuration,
            parts.sightings,
            parts.gate,
            IntentDesk(
                parts.store,
                parts.configuration,
                parts.wakes,
                parts.gate.texts,
                skew_s=settings.ledger_skew_s,
                patience=patience_of(settings),
            ),
            acting=parts.acting,
            refusal=parts.refusal,
        )
        self.watches = DeployWatches(
            parts.store,
            parts.configuration,
            parts.sightings,
            parts.provider,
            self.follow_up.step,
            holder=parts.holder,
            lease_s=settings.fleet_lease_ttl_s * 4,
            terms=Terms(window_s=settings.deploy_watch_window, poll_s=settings.deploy_watch_poll),
        )

    def subscriptions(self) -> Sequence[Subscription]:
        """What runs."""

        def run(fence: LeaseFence | None) -> int:
            assert fence is not None
            return self.watches.run(fence)

        return [Subscription(name=deploy_watch.CADENCE, interval_s=STEP_S, run=run)]
