"""What evidence says about an action whose outcome is unknown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleetwarden.domain.actions import ActionRequest, Evidence, Kind, OutboxRecord
from fleetwarden.domain.fleet import InstanceStatus, ObservedInstance, ObservedService, Presence, ServiceStatus
from fleetwarden.domain.lifecycles import OutboxState
from fleetwarden.domain.recovery import judge

KEY, CALLED, HORIZON = "key-1", 1_000, 2_000


def record(
    kind: Kind, *, before: dict[str, Any] | None = None, dry_run: bool = False, **params: int | str
) -> OutboxRecord:
    request = ActionRequest(
        kind=kind,
        target="web",
        params=params,
        source="reconciler",
        requested_by="reconciler",
        key=KEY,
        dry_run=dry_run,
        evidence=Evidence(observed_at=900, facts=before or {"existing": 1, "total": 2}),
    )
    return OutboxRecord(
        seq=1,
        key=KEY,
        state=OutboxState.RECOVERY_PENDING,
        request=request,
        request_digest=request.digest(),
        decision_seq=1,
        approval_seq=None,
        policy_digest="sha256:0",
        prepared_at=900,
        expires_at=9_000,
        started_at=CALLED,
        horizon_at=HORIZON,
    )


def instance(slot: int, key: str, *, ran: bool = True) -> ObservedInstance:
    return ObservedInstance(id=str(slot), status=InstanceStatus.UP, key=key, identity=f"boot/{slot}/7" if ran else "")


def look(at: int, *instances: ObservedInstance, **changes: object) -> ObservedService:
    base = ObservedService(
        name="web",
        observed_at=at,
        source="process",
        status=ServiceStatus.UP,
        existing=len(instances),
        total=len(instances),
        instances=instances,
    )
    return msgspec.structs.replace(base, **changes)


@pytest.mark.req("PRO-6", "AUT-10")
def test_the_key_on_the_instance_proves_a_restart_as_soon_as_it_is_newer_than_the_call() -> None:
    restart = record(Kind.RESTART, replica=1)
    found = look(CALLED + 1, instance(0, "old"), instance(1, KEY))
    assert judge(restart, found).done is True
    assert judge(restart, msgspec.structs.replace(found, observed_at=CALLED - 1)).done is None


@pytest.mark.req("PRO-6")
def test_absence_proves_nothing_before_the_horizon_and_failure_after_it() -> None:
    restart = record(Kind.RESTART, replica=1)
    assert judge(restart, look(HORIZON, instance(0, "old"), instance(1, "old"))).done is None
    late = judge(restart, look(HORIZON + 1, instance(0, "old"), instance(1, "old")))
    assert (late.done, late.code) == (False, "not_done")


@pytest.mark.req("AUT-10")
def test_a_slot_that_was_planned_and_never_ran_is_no_proof() -> None:
    restart = record(Kind.RESTART, replica=1)
    planned = look(HORIZON + 1, instance(0, "old"), instance(1, KEY, ran=False))
    assert judge(restart, planned).done is False


@pytest.mark.req("AUT-10")
def test_half_a_start_is_named_partial_and_not_claimed_as_done() -> None:
    start = record(Kind.START, before={"existing": 0, "total": 0}, replicas=2)
    half = judge(start, look(HORIZON + 1, instance(0, KEY)))
    assert (half.done, half.code) == (False, "partial")
    assert judge(start, look(CALLED + 1, instance(0, KEY), instance(1, KEY))).done is True


@pytest.mark.req("AUT-10")
def test_a_scale_down_is_proved_by_a_count_that_was_not_so_before() -> None:
    down = record(Kind.SCALE, before={"existing": 3, "total": 3}, replicas=1)
    assert judge(down, look(CALLED + 1, instance(0, "old"))).done is True
    same = record(Kind.SCALE, before={"existing": 1, "total": 1}, replicas=1)
    assert judge(same, look(HORIZON + 1, instance(0, "old"))).done is False


@pytest.mark.req("AUT-10")
def test_a_stop_is_proved_by_its_key_or_by_instances_that_are_gone() -> None:
    stop = record(Kind.STOP, before={"existing": 2, "total": 2})
    marked = look(CALLED + 1, presence=Presence.STOPPED_BY_US, stop_key=KEY)
    assert judge(stop, marked).done is True
    assert judge(stop, look(HORIZON + 1, instance(0, "old"), instance(1, "old"))).done is False


@pytest.mark.req("AUT-10")
def test_what_died_by_itself_was_not_stopped() -> None:
    stop = record(Kind.STOP, before={"existing": 2, "total": 2})
    dead = look(HORIZON + 1, instance(0, "older"), instance(1, "older"), existing=0)
    assert judge(stop, msgspec.structs.replace(dead, observed_at=HORIZON)).done is None
    judgement = judge(stop, dead)
    assert (judgement.done, judgement.code) == (False, "partial")
    dead_before = record(Kind.STOP, before={"existing": 0, "total": 2})
    assert judge(dead_before, look(HORIZON + 1, instance(0, "older"), existing=0)).code == "partial"
    other = look(HORIZON + 1, presence=Presence.STOPPED_BY_US, stop_key="older")
    assert judge(stop, other).done is False


@pytest.mark.req("PRO-6")
def test_a_start_adds_to_what_lives_already() -> None:
    lived = {"id": "0", "status": "up", "identity": instance(0, "older").identity}
    start = record(Kind.START, before={"existing": 1, "total": 1, "instances": [lived]}, replicas=2)
    assert judge(start, look(CALLED + 1, instance(0, "older"), instance(1, KEY))).done is True
    assert judge(start, look(HORIZON + 1, instance(0, "older"))).done is False
    assert judge(start, look(HORIZON + 1, instance(0, KEY))).code == "partial"


@pytest.mark.req("AUT-10")
def test_a_start_that_may_have_left_a_dead_slot_out_is_left_to_a_person() -> None:
    died = {"id": "1", "status": "down", "identity": instance(1, "older").identity}
    start = record(Kind.START, before={"existing": 1, "total": 2, "instances": [died]}, replicas=2)
    assert judge(start, look(HORIZON + 1, instance(0, KEY), instance(1, "older"))).done is None


@pytest.mark.req("PRO-8")
def test_without_a_lateness_bound_only_a_person_settles_negatives() -> None:
    restart = msgspec.structs.replace(record(Kind.RESTART, replica=1), negatives_by_person=True)
    assert judge(restart, look(HORIZON * 9, instance(1, "old"))).done is None
    assert judge(restart, look(HORIZON * 9, instance(1, KEY))).done is True


@pytest.mark.req("AUT-10")
def test_without_keys_an_identity_that_was_not_there_before_is_the_evidence() -> None:
    blank = ObservedInstance(id="0", status=InstanceStatus.UP, identity="new")
    assert judge(record(Kind.RESTART), look(HORIZON + 1, blank)).done is None
    before = {"existing": 1, "total": 1, "instances": [{"id": "0", "identity": "old"}]}
    known = record(Kind.RESTART, before=before)
    assert judge(known, look(CALLED + 1, blank)).done is True
    same = msgspec.structs.replace(blank, identity="old", started_at=HORIZON * 5)
    assert judge(known, look(HORIZON + 1, same)).done is False


@pytest.mark.req("AUT-10")
def test_a_list_of_what_ran_before_that_was_cut_proves_nothing() -> None:
    before = {"existing": 2, "total": 2, "instances": [{"id": "0", "identity": "old"}]}
    cut = record(Kind.RESTART, before=before)
    other = ObservedInstance(id="1", status=InstanceStatus.UP, identity="new")
    assert judge(cut, look(HORIZON + 1, other)).done is None


@pytest.mark.req("AUT-8")
def test_an_interrupted_dry_run_ends_without_looking() -> None:
    assert judge(record(Kind.RESTART, dry_run=True), None).done is False


def running(slot: int, version: str, key: str = "", *, ran: bool = True) -> ObservedInstance:
    return msgspec.structs.replace(instance(slot, key, ran=ran), version=version)


BEFORE = {"total": 2, "instances": [{"id": "0", "version": "1.0"}, {"id": "1", "version": "1.0"}]}


@pytest.mark.req("PRO-6", "REC-3")
@pytest.mark.parametrize("kind", [Kind.DEPLOY, Kind.ROLLBACK])
@pytest.mark.parametrize(
    ("seen", "done", "code"),
    [
        ((running(0, "1.1", KEY), running(1, "1.1", KEY)), True, ""),
        ((running(0, "1.1", "earlier"), running(1, "1.1", KEY)), True, ""),
        ((running(0, "1.1", KEY), running(1, "1.0", "earlier")), False, "partial"),
        ((running(0, "1.0", "earlier"), running(1, "1.0", "earlier")), False, "not_done"),
        ((running(0, "1.1", KEY), running(1, "1.1", KEY, ran=False)), False, "partial"),  # a plan without a process
        ((running(0, "", KEY), running(1, "1.1", KEY)), None, ""),
        ((), None, ""),
    ],
)
def test_a_rollout_is_judged_by_the_versions_that_run(
    kind: Kind, seen: tuple[ObservedInstance, ...], done: bool | None, code: str
) -> None:
    found = judge(record(kind, before=BEFORE, version="1.1"), look(HORIZON + 1, *seen))
    assert (found.done, found.code) == (done, code)


@pytest.mark.req("PRO-6", "REC-3")
def test_a_version_that_ran_before_proves_no_rollout() -> None:
    before = {"total": 1, "instances": [{"id": "0", "version": "1.1"}]}
    found = judge(record(Kind.DEPLOY, before=before, version="1.1"), look(HORIZON + 1, running(0, "1.1", "earlier")))
    assert found.done is False
    early = judge(record(Kind.DEPLOY, before=BEFORE, version="1.1"), look(HORIZON, running(0, "1.0", "earlier")))
    assert early.done is None
