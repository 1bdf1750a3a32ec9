"""Where a version goes back to: what stands in the way of each candidate, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fleetwarden.domain.actions import Kind
from fleetwarden.domain.deploy_watch import DeployWatch, WatchStatus
from fleetwarden.domain.fleet import ProcessSpec, Service, VersionSpec
from fleetwarden.domain.rollback_target import Target, rollback_target, verified_before, way_back

WEB = Service(
    name="web",
    version="3",
    process=ProcessSpec(
        command=("web",),
        host="h1",
        versions={one: VersionSpec(irreversible=one == "9") for one in ("1", "2", "3", "9")},
    ),
)


def a_watch(seq: int, version: str, status: WatchStatus = WatchStatus.SUCCESS, **fields: Any) -> DeployWatch:
    fields.setdefault("kind", Kind.DEPLOY.value)
    return DeployWatch(
        seq=seq,
        service="web",
        action_seq=seq,
        source="reconciler",
        version=version,
        status=status,
        started=0,
        settled=0,
        grace_until=0,
        deadline=1,
        **fields,
    )


def before(leaving: Sequence[str], verdicts: Sequence[DeployWatch], **known: Any) -> Target:
    known = {"running": ["3"], "quarantined": (), "complete": {}} | known
    return verified_before(WEB, leaving=leaving, verdicts=verdicts, **known)


@pytest.mark.req("DWH-3", "DWH-5")
def test_the_newest_that_was_verified_is_taken() -> None:
    assert before(["3"], [a_watch(3, "3"), a_watch(2, "2"), a_watch(1, "1")]) == Target(
        version="2", reason="version 2 passed watch V-2"
    )


@pytest.mark.req("DWH-5")
@pytest.mark.parametrize(
    ("verdict", "known", "why"),
    [
        (a_watch(2, "2", WatchStatus.FAILED), {}, "2 failed watch V-2"),
        (a_watch(2, "2"), {"quarantined": {"2"}}, "2 is in quarantine"),
        (a_watch(2, "2"), {"running": ["2"]}, "2 runs already"),
        (a_watch(2, "2"), {"complete": {"2": False}}, "the last roll-out of 2 was aborted"),
        (a_watch(2, "4"), {}, "4 is not in the registry any more"),
        (a_watch(2, "9"), {}, "9 is marked irreversible"),
        (a_watch(2, "2", definition="other"), {}, "2 is made from something else than when it passed"),
    ],
)
def test_one_that_is_unfit_is_passed_over_and_told(verdict: DeployWatch, known: dict[str, Any], why: str) -> None:
    assert before(["3"], [verdict], **known) == Target(
        version="", reason=f"no other version of web was verified healthy here ({why})"
    )
    assert before(["3"], [verdict, a_watch(1, "1")], **known).version == "1"


@pytest.mark.req("DWH-5")
def test_an_older_verdict_never_makes_good_for_a_newer_one() -> None:
    assert before(["3"], [a_watch(2, "2", WatchStatus.FAILED), a_watch(1, "2")]).version == ""


@pytest.mark.req("DWH-5", "POL-16")
def test_nothing_leads_back_from_what_cannot_be_undone() -> None:
    assert before(["9"], [a_watch(1, "1")]) == Target(
        version="", reason="version 9, which it would leave, is marked irreversible"
    )


@pytest.mark.req("DWH-5")
def test_a_rollback_that_failed_is_not_rolled_back_and_a_deploy_is() -> None:
    known: dict[str, Any] = {"running": ["3"], "verdicts": [a_watch(1, "1")], "quarantined": (), "complete": {}}
    failed = a_watch(5, "3", WatchStatus.FAILED)
    assert rollback_target(failed, WEB, **known).version == "1"
    failed = a_watch(5, "3", WatchStatus.FAILED, kind=Kind.ROLLBACK.value)
    assert rollback_target(failed, WEB, **known) == Target(
        version="", reason="what failed is a rollback itself, and a rollback is not rolled back"
    )


@pytest.mark.req("DWH-5")
@pytest.mark.parametrize(
    ("last", "running", "version"),
    [
        ("3", ["3"], "2"),
        ("3", [], "2"),  # nothing runs: what ran last is left all the same
        ("3", ["2", "3"], "2"),  # a roll-out that stopped half-way
        ("3", ["2"], "3"),  # somebody else put 2 there
        ("", ["2"], "3"),
    ],
)
def test_a_person_goes_back_from_what_was_rolled_out_last(last: str, running: list[str], version: str) -> None:
    verdicts = [a_watch(3, "3"), a_watch(2, "2"), a_watch(1, "1")]
    known: dict[str, Any] = {"verdicts": verdicts, "quarantined": (), "complete": {}}
    assert way_back(WEB, last=last, rolled_back=False, running=running, **known).version == version
    again = way_back(WEB, last=last, rolled_back=True, running=running, **known)
    assert again == Target(version="", reason="web was rolled back, and a rollback is not rolled back")
