"""The chain behind one intent, read back: what it led to, null where it has led to nothing, and nothing of others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fleetwarden.app.identity import Caller, Forbidden, local_admin
from fleetwarden.app.intent_views import Lineages
from fleetwarden.cli.ledger_screens import LAYOUTS
from fleetwarden.controllers.autoscaler import CADENCE
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.errors import Misconfigured, NotFound
from fleetwarden.domain.lifecycles import IntentState
from fleetwarden.testing import a_policy
from tests.contract.pipeline.conftest import Bench
from tests.contract.pipeline.scaling import Scaling, scaled


def lineage(bench: Bench, name: str, caller: Caller | None = None) -> dict[str, Any]:
    return Lineages(bench.store).lineage(caller or local_admin(), name)


@pytest.mark.req("CON-12")
def test_what_nothing_came_of_yet_is_null_and_a_refusal_is_told(bench: Bench) -> None:
    world = Scaling(bench, policy=a_policy(Tier.APPROVAL_REQUIRED))
    world.load(45)
    world.tick()
    [row] = world.intents()
    told = lineage(bench, row.id)
    assert told == lineage(bench, row.intent.intent_id)  # by its number and by its digest
    assert told["intent"]["state"] == "proposed"
    assert told["approval"]["status"] == "pending"
    assert (told["outbox"], told["outcome"], told["watch"]) == (None, None, None)
    assert told["executions"] == []
    assert ["waits for approval" in one["summary"] for one in told["notifications"]] == [True]
    assert (told["contract"]["execution"], told["contract"]["outcome"]) == (None, None)
    assert told["contract"]["decision"]["verdict"] == "queue_approval"

    def tell(tx: Any) -> None:
        for summary, named in (("of this one", row.id), ("of another one", "I-99999")):
            tx.journal.write(topic="notice", actor="gate", subject="web", summary=summary, detail={"intent": named})

    bench.store.transact("tell", tell)
    assert lineage(bench, row.id)["notifications"][0]["summary"] == "of this one"
    assert len(lineage(bench, row.id)["notifications"]) == 2


@pytest.mark.req("CON-12")
def test_the_chain_of_what_was_carried_out_is_whole_however_long_the_history(bench: Bench) -> None:
    world = Scaling(bench)
    world.load(45)
    world.round()
    row = world.intents()[0]

    def crowd(tx: Any) -> None:
        tx.journal.write(topic="notice", actor="watch", subject="web", summary="first", detail={"intent": row.id})
        for number in range(600):
            tx.journal.write(topic="notice", actor="watch", subject="web", summary=f"noise {number}")

    bench.store.transact("crowd", crowd)
    bench.clock.advance(10)
    bench.look()
    bench.clock.advance(10)
    bench.look()
    told = lineage(bench, row.id)
    assert told["decision"]["id"] == row.intent.decision_id
    assert told["outbox"]["decision_id"] == row.intent.decision_id
    assert [one["state"] for one in told["executions"]] == ["executed"]
    assert told["intent"]["state"] in (IntentState.OBSERVED.value, IntentState.VERIFIED.value)
    assert told["outcome"]["status"] in ("pending", "converged")
    assert told["watch"]["kind"] == "deploy_watch"
    assert "first" in [one["summary"] for one in told["notifications"]]
    assert told["contract"]["execution"]["phase"] == "succeeded"


@pytest.mark.req("CON-12", "POL-1")
def test_what_is_no_intent_is_not_found_and_who_may_not_look_is_refused(bench: Bench) -> None:
    world = Scaling(bench)
    world.load(45)
    world.tick()
    for name in ("I-999999", "sha256:" + "0" * 64):
        with pytest.raises(NotFound, match="no scale intent"):
            lineage(bench, name)
    with pytest.raises(Misconfigured):
        lineage(bench, "D-1")
    with pytest.raises(Forbidden):
        lineage(bench, world.intents()[0].id, Caller(person="nobody", token="t", roles=()))


@pytest.mark.req("AUT-5", "AUT-9")
def test_what_a_newer_count_overtook_is_no_failure(bench: Bench) -> None:
    world = Scaling(bench, scaled(cooldown_s=0))
    bench.look()
    for value in (30, 40):
        world.load(value)
        bench.clock.advance(15)
        world.autoscaler.run(bench.fence(CADENCE))
        bench.look()
        bench.act()
    bench.look()
    newer, older = world.intents()
    told = lineage(bench, older.id)
    assert told["intent"]["overtaken_by"] == newer.id
    assert (told["outcome"]["status"], told["outcome"]["by"]) == ("overtaken", newer.id)
    assert told["contract"]["outcome"]["status"] == "pending"
    assert "error" not in {one["severity"] for one in told["notifications"]}
    assert lineage(bench, newer.id)["intent"]["overtaken_by"] is None
    now = datetime.now(UTC)
    shown = [LAYOUTS["intents"].row(lineage(bench, one.id)["intent"], now)[3] for one in (older, newer)]
    assert shown == ["done, overtaken", "seen once"]
