"""From an event to a remedy, through the real gate, executor and worker, on both databases."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from fleetwarden.controllers.approvals import WORK_KIND
from fleetwarden.controllers.playbook_steps import PlaybookSteps
from fleetwarden.controllers.storm_watch import FACT
from fleetwarden.controllers.triage import TRIAGE, Triage
from fleetwarden.controllers.watch_ending import end_watch
from fleetwarden.controllers.watch_opening import open_watch
from fleetwarden.controllers.worker import Worker
from fleetwarden.domain.actions import Kind, Source, Tier
from fleetwarden.domain.deploy_watch import WatchStatus
from fleetwarden.domain.deploy_watch_verdict import Verdict
from fleetwarden.domain.errors import Fenced, Misconfigured, NotFound, StoreUnavailable
from fleetwarden.domain.events import EventClass, FleetEvent, Phase, Severity, StoredEvent
from fleetwarden.domain.fleet import DesiredState, Mode, ObservedService, Service
from fleetwarden.domain.lifecycles import ApprovalState, WorkState
from fleetwarden.domain.playbooks import End, Entry, Playbook, PlaybookEntry, PlaybookStep, StepKind, When
from fleetwarden.domain.policy_document import Options
from fleetwarden.domain.storm import Breaker, Storms
from fleetwarden.ports.stores import Page, Tx, WorkDraft, WorkItem
from fleetwarden.ports.watches import WatchDraft
from fleetwarden.testing import a_fleet, a_policy, a_service
from tests.contract.pipeline.conftest import Bench


class Ward:
    """A bench with triage and its playbooks."""

    def __init__(self, bench: Bench, *entries: PlaybookEntry, written: Mapping[str, Playbook] | None = None) -> None:
        self.bench = bench
        self.entries, self.written = entries, written or {}
        self.watched = WatchStatus.SUCCESS  # what the watch over an action comes to
        steps = PlaybookSteps(
            bench.store, bench.files, bench.sightings, bench.gate, bench.reconciler._restraint,
            lambda request, service: None, acting=frozenset({""}),
        )  # fmt: skip
        self.triage = Triage(
            bench.store, bench.files, bench.gate, steps, entries=lambda: self.entries, written=lambda: self.written
        )
        handlers = {
            TRIAGE: self.triage.handle,
            WORK_KIND: bench.readiness.gated(bench.desk.carry_out),
        }
        self.worker = Worker(bench.store, handlers, holder="p1", lease_s=60.0)

    def told(self, service: str | None = "shop", **fields: Any) -> int:
        """An event arrives; returns its number."""
        return self._put([self._event(service, fields)])[0]

    def told_at_once(self, *fingerprints: str) -> list[int]:
        """Alerts about `shop` arrive in one notification."""
        return self._put([self._event("shop", {"fingerprint": one}) for one in fingerprints])

    @staticmethod
    def _event(service: str | None, fields: Mapping[str, Any]) -> FleetEvent:
        given = {
            "source": "alertmanager", "severity": Severity.CRITICAL, "status": "firing", "phase": Phase.FIRING,
            "subject": service or "somewhere", "fingerprint": service or "f", "class_": EventClass.DOWN,
            "service": service, "summary": "it does not answer", **fields,
        }  # fmt: skip
        return FleetEvent(**given)

    def _put(self, events: Sequence[FleetEvent]) -> list[int]:
        return [one.seq for one in self.bench.store.transact("event", lambda tx: tx.events.put(events))]

    def step(self, rounds: int = 6) -> None:
        """Passes of worker and executor, as far as they go without time passing."""
        for _ in range(rounds):
            self.bench.store.transact("due", _make_due)
            self.worker.run()
            self.bench.act()
            self.bench.store.transact("verdicts", self._verdicts)
            self.bench.clock.advance(0.01)

    def _verdicts(self, tx: Tx) -> None:
        for watch in tx.watches.list(Page(state="running")):
            end_watch(tx, watch, Verdict(status=self.watched, reason="as this test has it"))

    def event(self, seq: int) -> StoredEvent:
        return self.bench.store.read(lambda tx: tx.events.get(seq))

    def came_to(self, seq: int) -> list[tuple[str, str]]:
        """The steps of an event and what they came to."""
        return [(str(one["kind"]), str(one["outcome"])) for one in self.event(seq).remediation_log]

    def waits(self) -> list[tuple[str, str]]:
        found = self.bench.store.read(lambda tx: tx.approvals.in_state(ApprovalState.PENDING))
        return [(one.request.kind, one.request.target) for one in found]


class Blind:
    """An observer that cannot see now."""

    name, substrates = "blind", frozenset({""})

    def observe(self, services: object, at: int) -> NoReturn:
        raise StoreUnavailable("the engine does not answer")


def _make_due(tx: Tx) -> None:
    """Steps that wait for the clock are due now: the store of a database server has a clock of its own."""
    for one in tx.work.list(Page(limit=100)):
        if one.state is WorkState.READY and one.not_before > tx.now():
            draft = WorkDraft(kind=one.kind, key=one.key, payload=one.payload, not_before=0, target=one.target)
            tx.work.enqueue(draft)


@pytest.fixture
def ward(bench: Bench) -> Ward:
    """`shop` and `db` run, one replica each, and were seen."""
    bench.files.declare(fleet=a_fleet(a_service("shop"), a_service("db")))
    for name in ("shop", "db"):
        bench.substrate.boot(name)
    bench.clock.advance(1)
    return Ward(bench)


# ------------------------------------------------------------------------------------------------ service_down
@pytest.mark.req("PLB-1", "PLB-4", "EVT-2")
def test_a_service_that_is_down_is_confirmed_decided_restarted_and_watched(ward: Ward) -> None:
    ward.bench.substrate.crash("shop", 0)
    seq = ward.told()
    ward.step()
    assert ward.came_to(seq) == [
        ("triage", "answered"), ("confirm", "confirmed"), ("decide", "authorised"), ("act", "succeeded"),
        ("watch", "success"), ("end", "succeeded"),
    ]  # fmt: skip
    event = ward.event(seq)
    assert event.remediation_status == "succeeded"
    [record] = ward.bench.records()
    assert (record.request.kind, record.request.source) == (Kind.RESTART, Source.PLAYBOOK)
    assert record.id in str(event.remediation_log)
    assert ward.bench.calls() == 1


@pytest.mark.req("PLB-1")
def test_what_has_recovered_is_left_alone(ward: Ward) -> None:
    seq = ward.told()
    ward.step()
    assert ward.event(seq).remediation_status == "recovered"
    assert ward.bench.calls() == 0
    assert ward.bench.decisions() == []


@pytest.mark.req("PLB-1", "PLB-5")
def test_what_policy_asks_a_person_about_waits_for_one_and_runs_once_granted(ward: Ward) -> None:
    ward.bench.policy(a_policy(Tier.APPROVAL_REQUIRED))
    ward.bench.substrate.crash("shop", 0)
    seq = ward.told()
    ward.step()
    assert ward.event(seq).remediation_status == "escalated"
    assert ward.waits() == [(Kind.RESTART, "shop")]
    [asked] = ward.bench.approvals()
    ward.bench.desk.grant(asked.seq, by="ada", reason="yes")
    ward.bench.look()
    ward.step()
    assert ward.bench.calls() == 1


@pytest.mark.req("PLB-1", "PLB-5")
def test_a_denial_is_escalated_unless_nobody_could_grant_it(ward: Ward) -> None:
    ward.bench.policy(a_policy(Tier.AUTO, rate=(0, 3600)))
    ward.bench.substrate.crash("shop", 0)
    ward.bench.substrate.crash("db", 0)
    seq = ward.told()
    ward.step()
    assert ("decide", "denied") in ward.came_to(seq)
    assert ward.event(seq).remediation_status == "escalated"
    assert ward.waits() == [(Kind.RESTART, "shop")]
    ward.bench.policy(a_policy(Tier.FORBIDDEN))
    other = ward.told("db")
    ward.step()
    assert ward.waits() == [(Kind.RESTART, "shop")]
    assert ward.event(other).remediation_status == "escalated"
    assert any("db: " in one and "nobody can be asked" in one for one in ward.bench.notices())
    assert ward.bench.calls() == 0


@pytest.mark.req("PLB-1")
def test_a_restart_that_did_not_help_is_put_before_a_person(ward: Ward) -> None:
    ward.watched = WatchStatus.FAILED
    ward.bench.substrate.crash("shop", 0)
    seq = ward.told()
    ward.step()
    assert ("watch", "failed") in ward.came_to(seq)
    assert ward.waits() == [(Kind.RESTART, "shop")]


@pytest.mark.req("PLB-1", "PLB-5")
def test_what_is_put_before_a_person_is_what_the_service_needs_and_its_grant_is_carried_out(ward: Ward) -> None:
    """One of two replicas is down: a restart of the whole service would be asked for in vain."""
    ward.bench.files.declare(fleet=a_fleet(a_service("shop", replicas=2)), policy=a_policy(Tier.AUTO, rate=(0, 3600)))
    ward.bench.substrate.boot("shop", replicas=2)
    ward.bench.clock.advance(1)
    ward.bench.substrate.crash("shop", 1)
    seq = ward.told()
    ward.step()
    assert ward.event(seq).remediation_status == "escalated"
    [asked] = ward.bench.approvals()
    assert dict(asked.request.params) == {"replica": 1}
    ward.bench.policy(a_policy(Tier.APPROVAL_REQUIRED))
    ward.bench.desk.grant(asked.seq, by="ada", reason="yes")
    ward.bench.look()
    ward.step()
    assert ward.bench.calls() == 1
    assert not any("was not carried out" in one for one in ward.bench.notices())


@pytest.mark.req("PLB-1", "REC-2")
@pytest.mark.parametrize("given", [{"desired": DesiredState.STOPPED}, {"mode": Mode.OBSERVE}, {"paused": "by hand"}])
def test_what_is_not_to_run_or_not_ours_to_touch_is_left_alone(ward: Ward, given: dict[str, Any]) -> None:
    ward.bench.substrate.crash("shop", 0)
    ward.bench.files.declare(fleet=a_fleet(a_service("shop", **given)))
    seq = ward.told()
    ward.step()
    assert ward.event(seq).remediation_status in ("left_alone", "recovered")
    assert ward.bench.calls() == 0
    assert ward.waits() == []


@pytest.mark.req("PLB-1")
def test_what_nobody_can_see_is_waited_for_and_never_acted_upon(ward: Ward) -> None:
    ward.bench.substrate.crash("shop", 0)
    ward.bench.sightings.observers = (Blind(),)
    seq = ward.told()
    ward.step()
    assert ward.came_to(seq) == [("triage", "answered")]
    assert ward.event(seq).remediation_status == "running"
    assert ward.bench.calls() == 0


@pytest.mark.req("POL-12")
def test_a_freeze_is_waited_out_and_an_old_event_is_only_told(ward: Ward) -> None:
    ward.bench.substrate.crash("shop", 0)
    ward.bench.store.transact("freeze", lambda tx: tx.freezes.add(owner="ada", reason="lunch", until=None))
    seq = ward.told()
    ward.step()
    assert ward.came_to(seq)[-1] == ("confirm", "confirmed")
    assert ward.waits() == []
    short = dataclasses.replace(a_policy(), options=Options(event_max_age_s=1))
    ward.bench.policy(short)
    ward.bench.clock.advance(2)
    if ward.bench.store.health().dialect == "sqlite":
        ward.step()
        assert ward.event(seq).remediation_status == "too_old"
        assert any("too old to act on" in one for one in ward.bench.notices())
    assert ward.bench.calls() == 0


@pytest.mark.req("POL-12", "PLB-1")
def test_an_event_that_grew_too_old_while_its_service_recovered_is_told_to_nobody(ward: Ward) -> None:
    ward.bench.substrate.crash("shop", 0)
    ward.bench.store.transact("freeze", lambda tx: tx.freezes.add(owner="ada", reason="lunch", until=None))
    seq = ward.told()
    ward.step()
    ward.bench.substrate.revive("shop", 0)
    ward.bench.policy(dataclasses.replace(a_policy(), options=Options(event_max_age_s=-1)))
    ward.step()
    assert ward.event(seq).remediation_status == "recovered"
    assert not any("too old" in one for one in ward.bench.notices())


@pytest.mark.req("RUN-2", "PLB-1")
def test_a_step_that_somebody_else_took_over_meanwhile_asks_for_nothing(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward.bench.substrate.crash("shop", 0)
    seq = ward.told()

    def claim(holder: str) -> Sequence[WorkItem]:
        return ward.bench.store.transact("claim", lambda tx: tx.work.claim(holder, [TRIAGE], 1, 1))  # lapses at once

    look_at = ward.bench.sightings.look_at

    def slow(service: Service) -> ObservedService | None:
        seen = look_at(service)
        if ward.came_to(seq)[-1] == ("confirm", "confirmed"):
            ward.bench.clock.advance(1)
            assert claim("p2")
        return seen

    monkeypatch.setattr(ward.bench.sightings, "look_at", slow)
    [item] = claim("p1")
    with pytest.raises(Fenced):
        ward.triage.handle(item)
    assert ward.bench.decisions() == []
    monkeypatch.undo()
    ward.step()
    assert ward.event(seq).remediation_status == "succeeded"
    assert ward.bench.calls() == 1


@pytest.mark.req("POL-15", "PLB-5")
@pytest.mark.parametrize("group", ["", "group:left"], ids=["of the fleet", "of its group"])
def test_in_a_storm_what_is_told_of_an_event_is_no_page_of_its_own(ward: Ward, group: str) -> None:
    ward.bench.files.declare(fleet=a_fleet(a_service("shop", group="left"), a_service("db")))
    one = Breaker(since=0, sick=3, total=3, threshold=3)

    def severities(*, stormy: bool) -> list[str]:
        storms = Storms(open={group: one} if stormy else {})
        ward.bench.store.transact("storms", lambda tx: tx.facts.put(FACT, storms.document()))
        ward.bench.policy(dataclasses.replace(a_policy(), options=Options(event_max_age_s=900)))
        ward.bench.substrate.crash("shop", 0)
        told = ward.told(class_=EventClass.NONE, fingerprint=f"notify {stormy}")
        ward.step()
        old = ward.told(fingerprint=f"old {stormy}")
        ward.bench.policy(dataclasses.replace(a_policy(), options=Options(event_max_age_s=-1)))
        ward.step()
        assert [ward.event(seq).remediation_status for seq in (told, old)] == ["notified", "too_old"]
        journal = ward.bench.store.read(lambda tx: tx.journal.list(Page(kind="notice", limit=500)))
        mine = [entry for entry in journal if entry.detail.get("event") in (f"E-{told}", f"E-{old}")]
        return [entry.severity for entry in mine]

    assert severities(stormy=True) == ["error", "error"]
    assert severities(stormy=False) == ["critical", "critical"]


@pytest.mark.req("PLB-1", "PRO-2")
def test_two_events_and_the_reconciler_restart_a_service_once(ward: Ward) -> None:
    ward.bench.substrate.crash("shop", 0)
    ward.bench.look()
    first = ward.told()
    second = ward.told(fingerprint="another", source="grafana")
    ward.step(8)
    assert ward.bench.calls() == 1
    assert {ward.event(seq).remediation_status for seq in (first, second)} == {"recovered"}


# ------------------------------------------------------------------------------------------------ the other classes
@pytest.mark.req("PLB-2")
def test_flapping_is_never_restarted_and_a_person_is_asked_once(ward: Ward) -> None:
    ward.bench.substrate.crash("shop", 0)
    ward.bench.files.declare(policy=a_policy(Tier.AUTO))
    numbers = [ward.told(fingerprint=f"f{number}") for number in range(4)]
    ward.step()
    assert ward.event(numbers[-1]).event.class_ is EventClass.DOWN
    assert all(ward.event(seq).remediation_log[0]["answered_by"] == "service_flapping" for seq in numbers)
    assert ward.waits().count((Kind.RESTART, "shop")) == 1
    assert ward.bench.calls() == 0


@pytest.mark.req("PLB-1", "PLB-2", "OBS-3")
def test_one_notification_about_each_of_its_instances_is_no_flapping(ward: Ward) -> None:
    ward.bench.substrate.crash("shop", 0)
    numbers = ward.told_at_once(*(f"instance {number}" for number in range(4)))
    ward.step(8)
    assert {ward.event(seq).remediation_log[0]["answered_by"] for seq in numbers} == {"service_down"}
    assert ward.bench.calls() == 1
    assert ward.waits() == []


@pytest.mark.req("PLB-3")
def test_pressure_never_acts_people_are_told_and_asked_to_look_into_it(ward: Ward) -> None:
    seq = ward.told(class_=EventClass.PRESSURE, summary="the disk is 97 % full")
    ward.step()
    assert ward.came_to(seq)[1:] == [
        ("notify", "told"), ("escalate", "put before a person"), ("end", "escalated")
    ]  # fmt: skip
    assert ward.waits() == [(Kind.INVESTIGATE, "shop")]
    assert any("the disk is 97 % full" in one for one in ward.bench.notices())
    [asked] = ward.bench.approvals()
    ward.bench.desk.grant(asked.seq, by="ada", reason="on it")
    ward.bench.look()
    ward.step()
    assert ward.bench.approvals()[0].status is ApprovalState.CLOSED
    assert ward.bench.calls() == 0
    assert ward.bench.records() == []


@pytest.mark.req("EVT-2", "EVT-4", "EVT-5")
@pytest.mark.parametrize(
    ("service", "given", "status"),
    [
        ("shop", {"severity": Severity.WARNING}, "triaged"),
        ("shop", {"phase": Phase.RESOLVED, "severity": Severity.INFO}, "resolved"),
        ("shop", {"phase": Phase.NOTE}, "noted"),
        (None, {}, "unmatched"),
        ("shop", {"class_": EventClass.NONE}, "notified"),
    ],
)
def test_what_ends_with_the_default_playbook(ward: Ward, service: str | None, given: Any, status: str) -> None:
    ward.bench.substrate.crash("shop", 0)
    seq = ward.told(service, **given)
    ward.step()
    assert ward.event(seq).remediation_status == status
    assert ward.bench.calls() == 0
    assert ward.waits() == []


@pytest.mark.req("PLB-7")
def test_the_third_failure_in_a_row_is_put_before_a_person_once(ward: Ward) -> None:
    ward.bench.policy(a_policy(Tier.AUTO, rate=(0, 3600)))
    ward.bench.substrate.crash("shop", 0)
    numbers = [ward.told(fingerprint=f"f{number}") for number in range(4)]
    ward.step()
    assert ward.waits().count((Kind.FAILURE_GAP, "shop")) == 1
    [gap] = [one for one in ward.bench.approvals() if one.request.kind == Kind.FAILURE_GAP]
    linked = [seq for seq in numbers if gap.id in str(ward.event(seq).remediation_log)]
    assert len(linked) >= 1
    ward.bench.desk.grant(gap.seq, by="ada", reason="on it")
    ward.bench.look()
    ward.step()
    assert ward.bench.calls() == 0


# ---------------------------------------------------------------------------------------------- playbooks of one's own
@pytest.mark.req("PLB-4", "PLB-6")
def test_a_playbook_of_the_deployment_answers_instead_of_the_shipped_one(ward: Ward) -> None:
    steps = (
        PlaybookStep(kind=StepKind.CONFIRM),
        PlaybookStep(kind=StepKind.WAIT, wait_s=30),
        PlaybookStep(kind=StepKind.NOTIFY, text="somebody should look"),
        PlaybookStep(kind=StepKind.ESCALATE, when=When.FAILED),
    )
    ward.entries = (PlaybookEntry(name="gentle", on=("alertmanager",), steps=steps),)
    ward.bench.substrate.crash("shop", 0)
    seq = ward.told()
    ward.step()
    assert ward.came_to(seq)[1:] == [
        ("confirm", "confirmed"), ("wait", "waited"), ("notify", "told"), ("end", "succeeded"),
    ]  # fmt: skip
    assert ward.bench.calls() == 0


@pytest.mark.req("PLB-4")
def test_a_playbook_goes_on_as_it_was_when_it_began(ward: Ward) -> None:
    ward.bench.store.transact("freeze", lambda tx: tx.freezes.add(owner="ada", reason="lunch", until=None))
    ward.bench.substrate.crash("shop", 0)
    seq = ward.told()
    ward.step()
    ward.entries = (
        PlaybookEntry(name="service_down2", on=("alertmanager",), steps=(PlaybookStep(kind=StepKind.NOTIFY),)),
    )
    ward.bench.store.transact("thaw", lambda tx: tx.freezes.lift(tx.freezes.active()[0].seq, "ada"))
    ward.step(8)
    assert ward.event(seq).remediation_status == "succeeded"
    assert ward.bench.calls() == 1


@pytest.mark.req("PLB-4", "RUN-16")
def test_a_playbook_in_python_is_asked_for_each_step_and_its_errors_end_it(ward: Ward) -> None:
    def written(event: StoredEvent, seen: object, log: Sequence[Entry]) -> PlaybookStep:
        if not log:
            return PlaybookStep(kind=StepKind.CONFIRM)
        raise ValueError("no idea")

    ward.entries = (PlaybookEntry(name="mine", on=("alertmanager:critical",)),)
    ward.written = {"mine": written}
    ward.bench.substrate.crash("shop", 0)
    seq = ward.told()
    ward.step()
    assert ward.came_to(seq)[1:] == [("confirm", "confirmed"), ("end", "failed")]
    assert "ValueError: no idea" in str(ward.event(seq).remediation_log[-1])
    ward.written = {}
    lost = ward.told(fingerprint="other")
    ward.step()
    assert "not registered" in str(ward.event(lost).remediation_log[-1])


@pytest.mark.req("PLB-4", "PLB-1")
@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (None, "returned NoneType"),
        ((1, "confirm"), "returned tuple"),
        (End(status="running"), "no word of its own"),
        (End(status="it is\nover"), "no word of its own"),
        (PlaybookStep(kind=StepKind.NOTIFY), "has taken 100 steps"),
        (PlaybookStep(kind=StepKind.DECIDE), "asks to decide twice"),
        (PlaybookStep(kind=StepKind.WAIT, wait_s=1e9), "at most 3600 s"),
        (PlaybookStep(kind=StepKind.WAIT, wait_s=float("nan")), "at most 3600 s"),
        (PlaybookStep(kind=StepKind.ESCALATE, action=Kind.STOP), "escalate stop_service"),
        (PlaybookStep(kind=StepKind.DECIDE, action=Kind.STOP), "restart_service only"),
    ],
)
def test_a_playbook_in_python_that_asks_for_what_is_none_ends_and_people_are_told(
    ward: Ward, asked: Any, why: str
) -> None:
    ward.entries, ward.written = (PlaybookEntry(name="mine", on=("alertmanager",)),), {"mine": lambda *_: asked}
    ward.bench.substrate.crash("shop", 0)
    seq = ward.told()
    ward.step(16)
    event = ward.event(seq)
    assert (event.remediation_status, event.remediation_log[-1]["kind"]) == ("failed", "end")
    assert why in str(event.remediation_log[-1]["reason"])
    assert ward.bench.calls() <= 1, "a playbook asks for one action"
    assert ward.waits() == []
    told = ward.bench.store.read(lambda tx: tx.journal.list(Page(kind="notice", limit=500)))
    assert any(why in one.summary for one in told)


# ------------------------------------------------------------------------------------------------ killed anywhere
@pytest.mark.req("PLB-4", "RUN-1")
@pytest.mark.parametrize("nth", range(1, 12))
def test_killed_after_any_transaction_it_goes_on_and_does_nothing_twice(ward: Ward, nth: int) -> None:
    """The worker's plane dies right after its nth commit: another one takes the event over when the lease lapses."""
    ward.bench.substrate.crash("shop", 0)
    seq = ward.told()
    whole, commits = ward.bench.store.transact, 0

    def dies(name: str, fn: Any) -> Any:
        nonlocal commits
        done = whole(name, fn)
        commits += 1
        if commits == nth:
            raise SystemExit("killed")
        return done

    killed = False
    for _ in range(8):
        whole("due", _make_due)
        ward.bench.store.transact = dies  # type: ignore[method-assign]
        try:
            ward.worker.run()
        except SystemExit:
            killed = True
            break
        finally:
            ward.bench.store.transact = whole  # type: ignore[method-assign]
        ward.bench.act()
        whole("verdicts", ward._verdicts)
        ward.bench.clock.advance(0.01)
    assert killed, f"the story has fewer than {nth} transactions"
    whole("lapse", lambda tx: tx.work.void_all())
    ward.step(10)
    event = ward.event(seq)
    assert event.remediation_status in ("succeeded", "recovered")
    assert ward.bench.calls() == 1
    assert len(ward.bench.records()) == 1
    places = [one["step"] for one in event.remediation_log if "step" in one]
    assert places == sorted(set(places)), "no step is written down twice"


# ------------------------------------------------------------------------------------------------ what else it rests on
@pytest.mark.req("PLB-1", "DWH-4")
def test_a_watch_that_another_took_the_place_of_counts_as_that_one(ward: Ward) -> None:
    ward.bench.substrate.crash("shop", 0)
    ward.watched = WatchStatus.RUNNING  # nothing ends by itself
    ward._verdicts = lambda tx: None  # type: ignore[method-assign]
    seq = ward.told()
    ward.step()
    assert ("act", "succeeded") in ward.came_to(seq)
    first = ward.bench.store.read(lambda tx: tx.watches.running("shop"))
    assert first is not None
    draft = WatchDraft(
        service="shop", action_seq=None, kind="watch_deploy", source="api", grace_until=0, deadline=first.deadline
    )
    second = ward.bench.store.transact("another", lambda tx: open_watch(tx, draft, first))
    ward.step()
    assert ward.event(seq).remediation_status == "running", "the one that took its place is not over"
    verdict = Verdict(status=WatchStatus.SUCCESS, reason="well")
    ward.bench.store.transact("over", lambda tx: end_watch(tx, second, verdict))
    ward.step()
    assert ward.came_to(seq)[-2:] == [("watch", "success"), ("end", "succeeded")]


@pytest.mark.req("REC-11", "PLB-1")
def test_what_it_depends_on_is_looked_at_anew_and_waited_for(ward: Ward) -> None:
    ward.bench.files.declare(fleet=a_fleet(a_service("shop", depends_on=("db",)), a_service("db")))
    ward.bench.sightings.look([a_service("db")])  # it was well when it was last looked at
    ward.bench.substrate.crash("shop", 0)
    ward.bench.substrate.crash("db", 0)
    seq = ward.told()
    ward.step()
    assert ward.came_to(seq)[-1] == ("confirm", "confirmed")
    assert ward.bench.calls() == 0
    ward.bench.substrate.boot("db")
    ward.step(8)
    assert ward.event(seq).remediation_status == "succeeded"


@pytest.mark.req("PLB-4")
def test_a_playbook_in_python_is_told_what_was_last_seen(ward: Ward) -> None:
    told: list[str] = []

    def written(event: StoredEvent, seen: ObservedService | None, log: Sequence[Entry]) -> End:
        told.append("nothing" if seen is None else seen.status.value)
        return End(status="left_alone")

    ward.entries, ward.written = (PlaybookEntry(name="mine", on=("alertmanager",)),), {"mine": written}
    ward.bench.substrate.crash("shop", 0)
    ward.bench.sightings.look([a_service("shop")])
    ward.told()
    ward.step()
    assert told == ["down"]


@pytest.mark.req("PLB-7", "RUN-16")
def test_a_failure_that_code_of_ones_own_counted_is_put_before_a_person_once(ward: Ward) -> None:
    from fleetwarden.playbooks import escalate_repeated_failure

    bench = ward.bench
    parts: Any = SimpleNamespace(configuration=bench.files, store=bench.store, gate=bench.gate, ids=bench.ids)
    asked = [
        escalate_repeated_failure(parts, "shop", failures=number, reason="the nightly copy", source="backup")
        for number in (2, 3, 4)
    ]
    assert asked[0] is None
    assert asked[1] == asked[2] is not None
    assert ward.waits() == [(Kind.FAILURE_GAP, "shop")]
    with pytest.raises(NotFound):
        escalate_repeated_failure(parts, "nobody", failures=3, reason="x", source="backup")
    with pytest.raises(Misconfigured):
        escalate_repeated_failure(parts, "shop", failures=3, reason=" ", source="backup")
