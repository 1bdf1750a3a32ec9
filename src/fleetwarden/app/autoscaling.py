"""Putting the autoscaler together: which provider answers, what its signals are declared as, and when it runs.

One provider answers alone: what was injected, else what `signals.yml` and the settings name.  A failing one is never
silently replaced by the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fleetwarden.app import signal_sources
from fleetwarden.app.intent_views import Lineages
from fleetwarden.app.scaling_views import ScalingViews
from fleetwarden.app.settings import Settings
from fleetwarden.app.shadow_views import ShadowReports
from fleetwarden.app.signal_views import Signals
from fleetwarden.controllers.autoscaler import CADENCE, Autoscaler
from fleetwarden.controllers.autoscaler_report import AutoscaleEvaluation, ServiceEvaluation
from fleetwarden.controllers.intent_desk import IntentDesk
from fleetwarden.controllers.intent_recheck import IntentLimits
from fleetwarden.controllers.loop import Subscription
from fleetwarden.controllers.reactive import CADENCE as REACTIVE
from fleetwarden.controllers.reactive import Reactive
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.signal_intake import SignalIntake
from fleetwarden.controllers.supervision import Supervision
from fleetwarden.controllers.texts import KeptTexts
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.actions import LeaseFence
from fleetwarden.domain.question_evidence import Patience
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.signals import SignalProvider
from fleetwarden.ports.stores import Store

__all__ = ["Autoscaling", "intent_limits", "patience_of"]


def intent_limits(settings: Settings) -> IntentLimits:
    """What an accepted intent is held against."""
    return IntentLimits(
        max_age_s=settings.intent_max_age_s, skew_s=settings.ledger_skew_s, patience=patience_of(settings)
    )


def patience_of(settings: Settings) -> Patience:
    """How long a question lives without its evidence: three ticks at least, where ticks are rare."""
    return Patience(
        absent_s=settings.question_absent_s,
        silent_s=max(settings.question_silent_s, 3 * settings.fleet_autoscaler_interval),
        floor_s=settings.question_floor_s,
    )


class Autoscaling:
    """The autoscaler of one plane with everything around it."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        configuration: ConfigurationSource,
        sightings: Sightings,
        supervision: Supervision,
        wakes: Wakes,
        texts: KeptTexts,
        injected: SignalProvider | None,
        *,
        acting: frozenset[str],
    ) -> None:
        self.settings = settings
        supervision.signals_every(settings.fleet_autoscaler_interval)
        self.sources = signal_sources.build(settings, store, injected)
        self.desk = IntentDesk(
            store, configuration, wakes, texts, skew_s=settings.ledger_skew_s, patience=patience_of(settings)
        )
        self.autoscaler = Autoscaler(
            store,
            configuration,
            sightings,
            supervision,
            self.desk,
            self.sources.provider,
            declared=self.sources.declared,
            acting=acting,
            actions_max=settings.fleet_reconciler_max_actions,
            max_age_s=settings.intent_max_age_s,
            skew_s=settings.ledger_skew_s,
        )
        self.reactive = Reactive(store, wakes, ticks=lambda: self.autoscaler.ticks)
        file = self.sources.file
        document = self.sources.document
        intake = SignalIntake(store, configuration, document, self.sources.authenticator, taken=self.reactive.pushed)
        self.signals = Signals(intake, store, configuration, document, self.sources.provider)
        self.lineages = Lineages(store)
        self.shadows = ShadowReports(store, configuration, lambda: self.autoscaler.shadowing.seen)
        self.views = ScalingViews(
            on=settings.fleet_autoscaler,
            live=self.standing,
            problems=lambda: file.problems,
            stays=lambda: file.stays,
            declared=self.sources.declared,
            rejections=lambda: dict(intake.rejections),
        )

    def operations(self) -> tuple[Signals, Lineages, ShadowReports]:
        """What people and programs can ask."""
        return self.signals, self.lineages, self.shadows

    def subscriptions(self, stopping: Callable[[], bool]) -> Sequence[Subscription]:
        """What runs: nothing unless FLEET_AUTOSCALER says so."""
        if not self.settings.fleet_autoscaler:
            return ()

        def tick(fence: LeaseFence | None) -> AutoscaleEvaluation:
            assert fence is not None
            self.autoscaler.paused = stopping()
            return self.autoscaler.run(fence)

        interval = self.settings.fleet_autoscaler_interval
        return (
            Subscription(name=CADENCE, interval_s=interval, run=tick),
            Subscription(name=REACTIVE, interval_s=1.0, run=lambda _: self.reactive.run(), leased=False, vital=False),
        )

    def standing(self, name: str) -> ServiceEvaluation | None:
        """This plane's own evaluation of a service: None while another one ticks, whose row is stored."""
        return self.autoscaler.standing(name) if self.autoscaler.ticks else None

    def counters(self) -> Mapping[str, int]:
        """Services by reason over all ticks of this plane."""
        return dict(self.autoscaler.counts)
