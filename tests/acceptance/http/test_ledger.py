"""The sealed ledger over HTTP: what a plane did is verified from outside, and a rule is read as it was."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from fleetwarden.app.identity import Role
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.identifiers import digest
from fleetwarden.domain.policy_default import SHIPPED_TEXT
from fleetwarden.domain.policy_rules import Rule
from fleetwarden.ledger_verifier import Report, Verifier
from fleetwarden.ports.configuration import SourceText
from fleetwarden.ports.stores import Tx
from tests.acceptance.http.test_reading import busy
from tests.acceptance.http.world import World

pytestmark = pytest.mark.req("RUN-8")


@pytest.fixture
def eventful(tmp_path: Any) -> Any:
    made = busy(tmp_path)
    yield made
    made.close()


def verified(world: World, role: Role = Role.VIEWER) -> tuple[Report, list[Any]]:
    client, cursor, items = world.client(role), None, []
    verifier = Verifier()
    while True:
        answer = client.get("/ledger/export", params={} if cursor is None else {"cursor": cursor})
        assert answer.status_code == 200
        page = answer.json()
        items += page["items"]
        for item in page["items"]:
            verifier.take(item)
        cursor = page["next"]
        if cursor is None:
            return verifier.end(), items


def test_what_a_fleet_did_is_sound_before_and_after_it_is_sealed(eventful: World) -> None:
    before, _ = verified(eventful)
    eventful.plane.tick("ledger_sealer")
    after, items = verified(eventful)
    assert before.told == after.told == []
    assert (before.sealed, after.tail) == (0, [])
    assert after.sealed == len(before.tail) > 20
    assert after.checkpoints == 1
    assert items[-1] == {"type": "end", "items": len(items)}


@pytest.mark.parametrize("cursor", ["", "7", "sealed:1:1", "stray-tokens:0:0:0", "text:0:0:XY", "sealed:-1:0:0"])
def test_what_is_no_cursor_is_refused(eventful: World, cursor: str) -> None:
    assert eventful.client().get("/ledger/export", params={"cursor": cursor}).status_code == 400


def test_a_registry_is_for_administrators_and_left_out_of_exports(eventful: World) -> None:
    secret = "version: 1\nservices: [{name: web, env: {TOKEN: hunter2}}]\n"

    def keep(tx: Tx) -> dict[str, str]:
        bodies = {"policy": SHIPPED_TEXT, "registry": secret}
        return {kind: tx.texts.keep(kind=kind, name=kind, body=body) for kind, body in bodies.items()}

    digests = eventful.store.transact("keep", keep)
    report, items = verified(eventful, Role.ADMIN)
    assert report.told == []
    assert {one["digest"] for one in items if one["type"] == "text"} >= set(digests.values())
    assert "hunter2" not in str(items)
    found = eventful.client(Role.VIEWER).get(f"/ledger/texts/{digests['policy']}")
    assert (found.status_code, found.json()["body"]) == (200, SHIPPED_TEXT)
    assert eventful.client(Role.VIEWER).get(f"/ledger/texts/{digests['registry']}").status_code == 403
    assert eventful.client(Role.ADMIN).get(f"/ledger/texts/{digests['registry']}").json()["body"] == secret
    assert eventful.client().get("/ledger/texts/sha256:1").status_code == 400
    assert eventful.client().get(f"/ledger/texts/sha256:{'0' * 64}").status_code == 404


def test_the_policy_text_is_kept_before_the_first_decision_under_it(tmp_path: Any) -> None:
    world = World(tmp_path)
    policy = world.configuration.current().policy
    text = SourceText(kind="policy", name="policy.yml", body="version: 1\n", digest=digest(b"version: 1\n"))
    kinds = ("start_service", "scale_service", "restart_service")
    rules = [Rule(kind=kind, target="web", tier=Tier.AUTO, where="policy.yml:1") for kind in kinds]
    policy = dataclasses.replace(policy, rules=tuple(rules), digest=text.digest)
    changed = msgspec.structs.replace(world.configuration.current(), texts=(text,), policy=policy)
    world.configuration._now = changed
    world.substrate.boot("web", 1)
    world.look()
    decision = world.client().get("/decisions").json()["items"][0]
    client, name = world.client(), decision["id"]
    told = [
        client.get(f"/decisions/{name}").json(),
        client.get("/services/web/explain").json()["decision"],
        *(one["record"] for one in client.get("/services/web/history").json()["items"] if one["what"] == "decision"),
    ]
    notes = world.client().get("/journal", params={"kind": "configuration"}).json()["items"]
    world.look()
    again = world.client().get("/journal", params={"kind": "configuration"}).json()["items"]
    world.close()
    assert [one["target"] for one in notes] == ["policy.yml"]
    assert notes[0]["at"] <= decision["at"]
    assert again == notes
    assert [(one["id"], one["rule_text"]) for one in told] == [(name, "version: 1")] * 3
