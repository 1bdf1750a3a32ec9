"""A pipeline's own merge through `fleetwarden.promotion`: no flip without an allow or a grant, and none twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fleetwarden.app.identity import Role
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.errors import Retryable
from fleetwarden.promotion import GovernedAutoMerger, MergeState, PlaneActions
from fleetwarden.testing import a_policy
from tests.acceptance.http.world import World


class Pipeline:
    """Somebody's merge: it counts, and fails where it is told to."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.fails = False

    def merge(self, target: str, params: Mapping[str, Any]) -> str:
        self.made.append(target)
        if self.fails:
            raise RuntimeError("a conflict")
        return f"merged {params['revision']}"


class Flaky(PlaneActions):
    """A way to the plane on which answers get lost: what was asked has happened all the same."""

    lost: tuple[str, ...] = ()

    def claim(self, action_id: str) -> Mapping[str, Any]:
        told = super().claim(action_id)
        if "claim" in self.lost:
            raise Retryable("the line is dead")
        return told

    def report(self, action_id: str, **told: Any) -> Mapping[str, Any]:
        if "report" in self.lost:
            raise Retryable("the line is dead")
        return super().report(action_id, **told)


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline()


def merger(world: World, pipeline: Pipeline) -> tuple[GovernedAutoMerger, Flaky]:
    way = Flaky(world.plane, "pipeline")
    return GovernedAutoMerger(way, pipeline.merge), way


def ask(one: GovernedAutoMerger, revision: str = "1a2b", **more: Any) -> Any:
    return one.promote("model-7", {"revision": revision}, reason="tests are green", **more)


def decide(world: World, approval: str, decision: str) -> None:
    body = {"job_id": approval, "decision": decision, "reason": "looked"}
    assert world.client(Role.APPROVER).post("/approvals/grant", json=body).status_code == 200


@pytest.mark.req("POL-20", "POL-11", "RUN-16")
def test_what_policy_allows_is_merged_once(world: World, pipeline: Pipeline) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    one, _ = merger(world, pipeline)
    told = ask(one)
    assert (told.state, told.merged, told.reason) == (MergeState.MERGED, True, "merged 1a2b")
    again, _ = merger(world, pipeline)  # another process, later: the ledger knows
    assert ask(again).state is MergeState.MERGED
    assert pipeline.made == ["model-7"]
    [row] = world.client().get("/executions").json()["items"]
    assert (row["kind"], row["ok"], row["source"]) == ("merge_promotion", True, "api")


@pytest.mark.req("POL-20", "POL-11")
def test_a_grant_is_waited_for_and_a_no_is_a_no(world: World, pipeline: Pipeline) -> None:
    one, _ = merger(world, pipeline)
    asked = ask(one)
    assert (asked.state, asked.merged, pipeline.made) == (MergeState.WAITING, False, [])
    assert ask(one).approval_id == asked.approval_id
    decide(world, asked.approval_id, "approved")
    assert ask(one).merged
    refused = ask(one, "3c4d")
    decide(world, refused.approval_id, "denied")
    assert ask(one, "3c4d").state is MergeState.BLOCKED
    world.configuration.declare(policy=a_policy(Tier.FORBIDDEN))
    assert ask(one, "5e6f").state is MergeState.BLOCKED
    assert pipeline.made == ["model-7"]


@pytest.mark.req("POL-20", "POL-12")
def test_a_freeze_holds_what_was_granted(world: World, pipeline: Pipeline) -> None:
    one, _ = merger(world, pipeline)
    decide(world, ask(one).approval_id, "approved")
    world.client(Role.OPERATOR).post("/freeze", json={"on": True, "reason": "an incident"})
    held = ask(one)
    assert (held.state, pipeline.made) == (MergeState.WAITING, [])
    assert "an incident" in held.reason
    world.client().post("/freeze", json={"on": False, "reason": "over"})
    assert ask(one).merged


@pytest.mark.req("POL-20", "POL-12")
def test_what_is_first_asked_during_a_freeze_waits_for_its_end(world: World, pipeline: Pipeline) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    world.client(Role.OPERATOR).post("/freeze", json={"on": True, "reason": "an incident"})
    one, _ = merger(world, pipeline)
    asked, again = ask(one), ask(one)
    assert (asked.state, again.state, pipeline.made) == (MergeState.WAITING, MergeState.WAITING, [])
    assert "an incident" in asked.reason
    denied = [row["verdict"] for row in world.client().get("/decisions").json()["items"]]
    assert denied == ["deny"], "asking again during the freeze decides nothing anew"
    world.client().post("/freeze", json={"on": False, "reason": "over"})
    assert (ask(one).state, ask(one).state, pipeline.made) == (MergeState.MERGED, MergeState.MERGED, ["model-7"])
    world.configuration.declare(policy=a_policy(Tier.FORBIDDEN))
    assert ask(one, "9f").state is MergeState.BLOCKED, "what policy forbids is no hold that ends"


@pytest.mark.req("POL-20")
def test_a_merge_that_fails_is_told_and_not_tried_again(world: World, pipeline: Pipeline) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    one, _ = merger(world, pipeline)
    pipeline.fails = True
    told = ask(one)
    assert (told.state, told.reason) == (MergeState.FAILED, "RuntimeError: a conflict")
    assert ask(one).state is MergeState.FAILED
    pipeline.fails = False
    assert ask(one, key="once more").merged
    assert pipeline.made == ["model-7", "model-7"]


@pytest.mark.req("POL-20", "POL-11")
def test_a_lost_claim_merges_nothing_and_a_lost_report_is_told_again(world: World, pipeline: Pipeline) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    one, way = merger(world, pipeline)
    way.lost = ("claim",)
    assert (ask(one).state, pipeline.made) == (MergeState.WAITING, [])
    way.lost = ()
    unknown = ask(one)
    assert (unknown.state, pipeline.made) == (MergeState.UNKNOWN, []), "somebody claimed it, and nobody knows who acted"
    world.client(Role.OPERATOR).post(f"/actions/{unknown.action_id}/result", json={"ok": False})
    other, way = merger(world, pipeline)
    way.lost = ("report",)
    made = other.promote("model-8", {"revision": "7a"}, reason="tests are green")
    assert made.merged
    assert "the plane has not heard it" in made.reason
    way.lost = ()
    assert other.promote("model-8", {"revision": "7a"}, reason="tests are green").merged
    assert pipeline.made == ["model-8"]
    states = {row["target"]: row["state"] for row in world.client().get("/executions").json()["items"]}
    assert states["model-8"] == "executed"


@pytest.mark.req("POL-11", "POL-20")
def test_where_nobody_can_be_asked_nothing_is_merged(world: World, pipeline: Pipeline) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    one, _ = merger(world, pipeline)
    world.store.breaks_after(0)
    told = ask(one)
    assert (told.state, pipeline.made) == (MergeState.BLOCKED, [])
    assert told.reason.startswith("nobody could be asked: ")
    world.store.breaks_after(None)
    viewer = GovernedAutoMerger(PlaneActions(world.plane, "eve", role=Role.VIEWER), pipeline.merge)
    assert ask(viewer).state is MergeState.BLOCKED


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("there are no words")


@pytest.mark.req("POL-20")
@pytest.mark.parametrize(
    ("said", "detail"),
    [
        (True, ""),
        ({"sha": "1a"}, "{'sha': '1a'}"),
        (7, "7"),
        (RuntimeError("\x1b[31mred\nand \udcff"), "RuntimeError: \ufffd[31mred\nand \ufffd"),
        (RuntimeError("push https://ci:hunter2@host"), "RuntimeError: push https://ci:***@host"),
        (Unspeakable(), "Unspeakable: Unspeakable"),
    ],
)
def test_a_merge_may_say_whatever_it_likes_and_its_end_is_on_record(world: World, said: Any, detail: str) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))

    def merge(target: str, params: Mapping[str, Any]) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    told = GovernedAutoMerger(PlaneActions(world.plane, "pipeline"), merge).promote("model-7", {}, reason="green")
    state = MergeState.FAILED if isinstance(said, Exception) else MergeState.MERGED
    assert (told.state, told.reason) == (state, detail)
    shown = world.client().get(f"/actions/{told.action_id}").json()
    assert (shown["ok"], shown["detail"]) == (told.merged, detail)


@pytest.mark.req("POL-20")
def test_a_merge_whose_end_was_not_heard_is_told_again_also_after_the_time_to_say_so(
    world: World, pipeline: Pipeline
) -> None:
    world.configuration.declare(policy=a_policy(Tier.AUTO))
    one, way = merger(world, pipeline)
    way.lost = ("report",)
    assert ask(one).merged
    world.clock.advance(3601)
    world.plane.remedies.outside.desk.sweep()
    way.lost = ()
    told = ask(one)
    assert (told.state, pipeline.made) == (MergeState.MERGED, ["model-7"])
    assert world.client().get(f"/actions/{told.action_id}").json()["state"] == "succeeded"
