"""The promises about alerts, playbooks and storms, broken one by one, as `planted` does it for the protocol.

Each plays in histories with alerts, with the weather that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from fleetwarden.controllers import playbook_steps, storm_watch, triage
from fleetwarden.controllers.admission import Admission, Ticket
from fleetwarden.controllers.event_placing import EventPlacing
from fleetwarden.controllers.gate import Gate
from fleetwarden.controllers.playbook_steps import Doing, Outcome, PlaybookSteps
from fleetwarden.controllers.standing import Standing
from fleetwarden.domain import playbooks, storm
from fleetwarden.domain.actions import Kind, Source, Tier
from fleetwarden.domain.convergence import Need, Rest, converge
from fleetwarden.domain.correlation import place
from fleetwarden.domain.errors import FleetError, StoreUnavailable
from fleetwarden.domain.events import FleetEvent, StoredEvent
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.storm import Storms
from fleetwarden.ports.events import Receipt
from fleetwarden.ports.stores import Tx
from fleetwarden.store import events as stored_events
from fleetwarden.store.events import StoredEvents
from tests.simulation.plane import SimStore
from tests.simulation.planted import Planted, Through

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["ALERTS"]


class OnAlerts(Planted):
    """Every history has senders of alerts and lets playbooks act, unless the tilt says otherwise."""

    tilt: ClassVar[Mapping[str, Any]] = {
        "alerts": True,
        "tier": Tier.AUTO,
        "world": 0.1,
        "people": 0.0,
        "people_share": 0.0,
        "stubborn": "",
        "trouble": 0.1,
        "crash": 0.0,
        "stall": 0.0,
        "store_fault": 0.0,
        "rough_steps": 300,
    }


STORMY: Mapping[str, Any] = {**OnAlerts.tilt, "storm_least": 1, "world": 0.2}


# -------------------------------------------------------------------------------------------------- events
class KeptBeforeItIs(OnAlerts):
    name = "a sender is told that its alerts are kept although the commit failed"
    tilt: ClassVar[Mapping[str, Any]] = {**OnAlerts.tilt, "store_fault": 0.1}

    def into(self, history: History) -> None:
        def hopeful(_: Admission, batch: Sequence[Ticket], error: FleetError) -> None:
            for ticket in batch:
                made = [Receipt(seq=1, duplicate=True, work_seq=None, event=event) for event in ticket.events]
                ticket.done.set_result(made)

        self.replace(Admission, "_failed", hopeful)


class EveryDeliveryIsNew(OnAlerts):
    name = "an alert that is delivered again is kept again"

    def into(self, history: History) -> None:
        numbers = count(1)

        def forgetful(*given: Any) -> Any:
            one = place(*given)
            return msgspec.structs.replace(one, key=f"{one.key}#{next(numbers)}", same_as=None)

        self.replace(stored_events, "place", forgetful)


class KeptWithoutAStep(OnAlerts):
    name = "of several new alerts in one body only the first one is followed by a step"

    def into(self, history: History) -> None:
        enqueue = StoredEvents._enqueue
        self.replace(
            StoredEvents, "_enqueue", lambda self, events, fresh, *rest: enqueue(self, events, fresh[:1], *rest)
        )


class StrangersAreOurs(OnAlerts):
    name = "an alert about nothing of ours is given to some service"

    def into(self, history: History) -> None:
        placed = EventPlacing.placed
        some = history.plan.services[0].name

        def guessed(self: EventPlacing, events: Sequence[FleetEvent]) -> list[FleetEvent]:
            return [msgspec.structs.replace(one, service=one.service or some) for one in placed(self, events)]

        self.replace(EventPlacing, "placed", guessed)


# -------------------------------------------------------------------------------------------------- playbooks
class LateOnesAreAnswered(OnAlerts):
    name = "what came too late, or has ended by then, is answered like anything else"

    def into(self, history: History) -> None:
        inert = playbooks.inert

        def eager(event: StoredEvent, *rest: Any) -> Any:
            return inert(msgspec.structs.replace(event, late=False, ended_at=None), *rest)

        self.replace(triage, "inert", eager)


class AgeBeginsAnew(OnAlerts):
    name = "an event is as old as its last step, as if each restart of a plane began its time anew"
    tilt: ClassVar[Mapping[str, Any]] = {**OnAlerts.tilt, "event_age_s": 20, "tier": Tier.AUTO, "people": 0.1}

    def into(self, history: History) -> None:
        over = triage.Triage._over

        def patient(self: triage.Triage, event: StoredEvent) -> Any:
            now = self._store.read(lambda tx: tx.now())
            return over(self, msgspec.structs.replace(event, at=now))

        self.replace(triage.Triage, "_over", patient)


class StepsHaveNoNames(OnAlerts):
    name = "a step asks under a new key each time that it is taken"
    tilt: ClassVar[Mapping[str, Any]] = {**OnAlerts.tilt, "rate": (9, 30), "blast": (9, 30)}

    def into(self, history: History) -> None:
        numbers = count(1)
        self.history = history
        self.lost: set[str] = set()
        self.replace(Doing, "key", lambda self, what: f"playbook:{self.event.id}:{self.place}:{what}:{next(numbers)}")

    def before(self, name: str, store: SimStore) -> None:
        """The store fails when a step that was authorised is written down; what was restarted falls once more."""
        history = self.history
        if history.calm:
            return
        if name == "playbook_step":
            prepared = history.engine.read(lambda tx: tx.outbox.in_state(OutboxState.PREPARED))
            mine = {one.request.target for one in prepared if one.request.source == Source.PLAYBOOK} - self.lost
            if mine:
                self.lost |= mine
                raise StoreUnavailable("the store fails, and nothing was kept")
        if name == "claim_work":
            for target in self.lost:
                history.alerts.fall(target)


class TakenOverAsks(OnAlerts):
    name = "a step that another plane has taken over asks all the same"
    tilt: ClassVar[Mapping[str, Any]] = {
        **OnAlerts.tilt,
        "planes": 2,
        "lease_ttl_s": 15.0,
        "poll_s": 6.0,
        "rate": (9, 30),
        "blast": (9, 30),
        "world": 0.2,
    }

    def into(self, history: History) -> None:
        self.history = history
        admit = Gate.admit

        def heedless(gate: Gate, requests: Any, *, fence: Any, most: Any = None, still: Any = None) -> Any:
            return admit(gate, requests, fence=fence, most=most)

        self.replace(Gate, "admit", heedless)

    def before(self, name: str, store: SimStore) -> None:
        """The thread that asks stands still for longer than its step is leased."""
        baton = self.history.baton
        if name == "admit" and baton.current.name.endswith(":worker") and not self.history.calm:
            baton.stall(baton.current, 40.0)


class WellIsRestarted(OnAlerts):
    name = "a playbook asks for a restart of what has recovered"

    def into(self, history: History) -> None:
        def needy(*given: Any) -> Need | Rest:
            need = converge(*given)
            well = isinstance(need, Rest) and need.code == "as_declared"
            return Need(kind=Kind.RESTART, params={}, reason="an alert says so") if well else need

        self.replace(playbook_steps, "converge", needy)


class FlappingIsRestarted(OnAlerts):
    name = "nobody counts how often a service went down"

    def into(self, history: History) -> None:
        built_in = playbooks.built_in
        self.replace(triage, "built_in", lambda event, _: built_in(event, 1))


class PressureIsRestarted(OnAlerts):
    name = "a resource that is short is answered by a restart"

    def into(self, history: History) -> None:
        built_in = playbooks.built_in

        def blunt(event: StoredEvent, outages: int) -> Any:
            named, steps = built_in(event, outages)
            return (named, playbooks._DOWN) if named == "resource_pressure" else (named, steps)

        self.replace(triage, "built_in", blunt)


class ToldBeside(OnAlerts):
    name = "people are told in a transaction before the one that says so in the log"

    def into(self, history: History) -> None:
        notify = PlaybookSteps._notify

        def beside(self: PlaybookSteps, *given: Any) -> Outcome:
            done = notify(self, *given)
            assert done.write is not None
            self._store.transact("tell", done.write)
            return Outcome(word=done.word)

        self.replace(PlaybookSteps, "_notify", beside)


class BudgetWithoutPlaybooks(OnAlerts):
    name = "what playbooks did does not count towards budgets"
    tilt: ClassVar[Mapping[str, Any]] = {**OnAlerts.tilt, "rate": (1, 90), "blast": (1, 90), "world": 0.25}

    def into(self, history: History) -> None:
        def others(uses: Callable[..., Any]) -> Callable[..., Any]:
            def counted(standing: Standing, *given: Any, **more: Any) -> Any:
                tx = standing._tx
                theirs = Through(
                    tx, decisions=Through(tx.decisions, uses=_without(tx, "uses"), targets=_without(tx, "targets"))
                )
                return uses(Standing(theirs, ""), *given, **more)

            return counted

        for method in ("uses", "targets"):
            self.replace(Standing, method, others(getattr(Standing, method)))


def _without(tx: Tx, method: str) -> Callable[..., Any]:
    read = getattr(tx.decisions, method)

    def kept(*given: Any, **more: Any) -> Any:
        found = read(*given, **more)
        return [one for one in found if tx.decisions.get(one.decision_seq).request.source != Source.PLAYBOOK]

    return kept


# -------------------------------------------------------------------------------------------------- storms
class StormIsIgnored(OnAlerts):
    name = "an open breaker holds nobody"
    tilt = STORMY

    def into(self, history: History) -> None:
        self.replace(Standing, "_storm", lambda *_: "")


class StormIsAskedOnce(OnAlerts):
    name = "what was authorised before the breaker opened begins all the same"
    tilt: ClassVar[Mapping[str, Any]] = {**STORMY, "storm_least": 2, "stall": 0.02, "rate": (9, 30), "blast": (9, 30)}

    def tx(self, name: str, tx: Tx) -> Tx:
        if name != "commit_1":
            return tx
        get = tx.facts.get
        calm: Any = Through(tx, facts=Through(tx.facts, get=lambda what: None if what == "storms" else get(what)))
        return calm


class EachLookPages(OnAlerts):
    name = "a page goes out whenever something changes in a storm"
    tilt = STORMY

    def into(self, history: History) -> None:
        tell = storm_watch._tell
        self.replace(storm_watch, "_tell", lambda tx, before, after: tell(tx, Storms(), after))


class AlertsPageInAStorm(OnAlerts):
    name = "what is told of an event in a storm is as loud as ever"
    tilt: ClassVar[Mapping[str, Any]] = {**STORMY, "event_age_s": 60}

    def into(self, history: History) -> None:
        for owner in (triage, playbook_steps):
            self.replace(owner, "severity_in", lambda _, severity, __: severity)


class StormNeverOpens(OnAlerts):
    name = "however many services are sick, no breaker opens"
    tilt = STORMY

    def into(self, history: History) -> None:
        self.replace(storm_watch, "step", lambda storms, *_, **__: storms)


class StormEndsAtOnce(OnAlerts):
    name = "the breaker closes with the first calm look"
    tilt = STORMY

    def into(self, history: History) -> None:
        self.replace(storm, "CALM", 0)


class StormOpensEarly(OnAlerts):
    name = "the breaker opens one service too early"
    tilt: ClassVar[Mapping[str, Any]] = {**OnAlerts.tilt, "storm_least": 2, "world": 0.2}

    def into(self, history: History) -> None:
        threshold = storm.StormLimits.threshold
        self.replace(storm.StormLimits, "threshold", lambda self, total: threshold(self, total) - 1)


ALERTS: Sequence[Callable[[], Planted]] = (
    KeptBeforeItIs,
    EveryDeliveryIsNew,
    KeptWithoutAStep,
    StrangersAreOurs,
    LateOnesAreAnswered,
    AgeBeginsAnew,
    StepsHaveNoNames,
    TakenOverAsks,
    WellIsRestarted,
    FlappingIsRestarted,
    PressureIsRestarted,
    ToldBeside,
    BudgetWithoutPlaybooks,
    StormIsIgnored,
    StormIsAskedOnce,
    EachLookPages,
    AlertsPageInAStorm,
    StormNeverOpens,
    StormEndsAtOnce,
    StormOpensEarly,
)
