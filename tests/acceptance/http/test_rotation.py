"""Tokens that end: by rotation with an overlap, by their own end, and never the last way in."""

from __future__ import annotations

from typing import Any

import pytest

from fleetwarden.app.first_token import first_admin_token
from fleetwarden.app.identity import Role
from fleetwarden.ports.stores import Page
from tests.acceptance.http.world import World


def opens(world: World, secret: str) -> bool:
    return world.client_of(secret).get("/status").status_code == 200


def rotated(world: World, name: str, **body: float) -> dict[str, Any]:
    answer = world.client(Role.ADMIN).post(f"/tokens/{name}/rotate", json=body)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


@pytest.mark.req("RUN-14")
def test_both_secrets_are_valid_for_the_overlap_and_then_only_the_new_one(world: World) -> None:
    old = world.token("ana", "viewer", person="Ana", teams=("web",))
    made = rotated(world, "ana", overlap_s=3600)
    assert opens(world, old)
    assert opens(world, made["secret"])
    assert (made["name"], made["person"], made["roles"], made["teams"]) == ("ana", "Ana", ["viewer"], ["web"])
    world.clock.advance(3599)
    assert opens(world, old)
    world.clock.advance(2)
    assert not opens(world, old)
    assert opens(world, made["secret"])


@pytest.mark.req("RUN-14")
def test_without_an_overlap_the_old_secret_ends_at_once(world: World) -> None:
    old = world.token("ana", "viewer")
    made = rotated(world, "ana")
    assert made["old_expires_at"] is None
    assert (opens(world, old), opens(world, made["secret"])) == (False, True)


@pytest.mark.req("RUN-14")
def test_an_old_secret_can_be_ended_early_and_two_are_the_most(world: World) -> None:
    old = world.token("ana", "viewer")
    new = rotated(world, "ana", overlap_s=3600)["secret"]
    again = world.client(Role.ADMIN).post("/tokens/ana/rotate", json={"overlap_s": 60})
    assert again.status_code == 409
    assert "ana.old" in again.text
    assert opens(world, new)
    assert world.client(Role.ADMIN).delete("/tokens/ana.old").status_code == 200
    assert (opens(world, old), opens(world, new)) == (False, True)
    rotated(world, "ana", overlap_s=60)


@pytest.mark.req("RUN-14")
def test_an_overlap_does_not_outlive_the_old_secrets_own_end(world: World) -> None:
    old = world.token("ana", "viewer", for_s=600)
    world.clock.advance(300)
    made = rotated(world, "ana", overlap_s=3600)
    world.clock.advance(301)
    assert (opens(world, old), opens(world, made["secret"])) == (False, True)
    world.clock.advance(300)
    assert not opens(world, made["secret"])  # made for as long as the old one was


@pytest.mark.req("RUN-14")
def test_what_cannot_be_rotated_is_refused_and_stays(world: World) -> None:
    old = world.token("ana", "viewer")
    admin = world.client(Role.ADMIN)
    assert admin.post("/tokens/nobody/rotate", json={}).status_code == 404
    assert admin.post("/tokens/ana/rotate", json={"overlap_s": -1}).status_code == 400
    assert admin.post("/tokens/ana/rotate", json={"overlap_s": 1e9}).status_code == 400
    assert admin.post("/tokens/admin-env/rotate", json={}).status_code == 409
    assert world.client(Role.OPERATOR).post("/tokens/ana/rotate", json={}).status_code == 403
    assert opens(world, old)


@pytest.mark.req("RUN-14")
def test_an_expired_admin_is_none_the_last_living_one_cannot_be_revoked(world: World) -> None:
    world.token("brief", "admin", for_s=60)
    world.clock.advance(61)
    refused = world.client(Role.ADMIN).delete("/tokens/admin")
    assert refused.status_code == 409
    assert "last admin token" in refused.text


@pytest.mark.req("RUN-14")
def test_an_expired_admin_token_does_not_keep_a_plane_from_making_its_first(world: World) -> None:
    world.store.transact("revoke", lambda tx: tx.tokens.revoke("admin"))
    world.store.transact(
        "brief",
        lambda tx: tx.tokens.add(
            name="b", secret_digest="sha256:b", roles=("admin",), person="b", expires_at=tx.now() + 60_000_000
        ),
    )
    assert first_admin_token(world.plane.store, world.plane.settings, "fw_" + "x" * 40) is None
    world.clock.advance(61)
    assert first_admin_token(world.plane.store, world.plane.settings, "fw_" + "x" * 40) is not None


@pytest.mark.req("RUN-14")
def test_a_rotation_is_attributed_and_its_secret_is_nowhere(world: World) -> None:
    world.token("ana", "viewer")
    secret = rotated(world, "ana", overlap_s=60)["secret"]
    entries = world.store.read(lambda tx: tx.journal.list(Page(kind="token")))
    assert entries[0].actor == "admin-person"
    assert "rotated the token ana" in entries[0].summary
    assert secret not in str(entries) + str(world.store.read(lambda tx: tx.tokens.all()))
