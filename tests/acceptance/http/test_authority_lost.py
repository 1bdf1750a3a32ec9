"""The store does not answer: every route says so, and none answers as if there were nothing."""

from __future__ import annotations

import pytest

from fleetwarden.app.identity import Role
from tests.acceptance.http.test_roles import MATRIX, address
from tests.acceptance.http.world import World


@pytest.mark.req("POL-17")
@pytest.mark.parametrize("topic", ["approvals", "decisions", "executions", "actions", "work", "journal", "recover"])
@pytest.mark.parametrize("reads_before", [0, 1], ids=["at once", "after the token was read"])
def test_a_list_that_cannot_be_read_is_a_503_and_never_empty(world: World, topic: str, reads_before: int) -> None:
    world.ask_for_restart()
    world.store.breaks_after(reads_before)
    answer = world.client().get(f"/{topic}")
    assert answer.status_code == 503
    assert answer.json()["code"] == "store_unavailable"
    assert "items" not in answer.json()
    assert int(answer.headers["retry-after"]) > 0


def test_every_route_that_asks_for_a_token_is_a_503(world: World) -> None:
    client = world.client()
    world.store.breaks_after(0)
    for (method, path), (_, body) in MATRIX.items():
        assert client.request(method, address(path), json=body).status_code == 503, f"{method} {path}"


def test_a_change_that_is_not_committed_is_a_503_and_has_not_happened(world: World) -> None:
    job_id = world.ask_for_restart()
    for path, body in (
        ("/approvals/grant", {"job_id": job_id, "decision": "approved"}),
        ("/freeze", {"on": True}),
        ("/tokens", {"name": "fresh", "roles": ["viewer"]}),
        ("/shutdown", {"services": False}),
    ):
        world.store.breaks_after(1)
        assert world.client().post(path, json=body).status_code == 503, path
    world.store.breaks_after(None)
    client = world.client()
    assert client.get(f"/approvals/{job_id}").json()["status"] == "pending"
    assert client.get("/freeze").json()["frozen"] is False
    assert "fresh" not in client.get("/tokens").text
    assert not world.ended.is_set()


def test_the_page_says_that_it_cannot_read_and_shows_no_empty_fleet(world: World) -> None:
    browser = world.browser(Role.VIEWER)
    for reads_before in range(4):
        world.store.breaks_after(reads_before)
        shown = browser.http.get("/")
        assert shown.status_code == 503
        assert "the database does not answer" in shown.text
        assert "Nothing has been done yet" not in shown.text
    assert world.bare.get("/livez").status_code == 200
