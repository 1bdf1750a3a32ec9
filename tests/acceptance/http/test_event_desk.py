"""Bodies of events that arrive together: judged in one turn, each answered for itself."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import pytest

from fleetwarden.app.event_views import Delivery
from fleetwarden.app.identity import Caller, Role, Unauthenticated
from fleetwarden.domain.errors import Retryable
from fleetwarden.events import normalise
from fleetwarden.web.event_desk import SENDING_MAX, EventDesk
from tests.acceptance.http.world import World
from tests.unit.events.bodies import alert, group

PATIENCE_S = 30


def body(name: str) -> bytes:
    return json.dumps(group(alert(labels={"service": "web"}, fingerprint=name))).encode()


class Watched:
    """A plane whose looks at tokens are counted, and wait for leave."""

    def __init__(self, world: World) -> None:
        self.events = world.plane.events
        self.looks: list[str] = []
        self.asked, self.goes = threading.Event(), threading.Event()
        self._plane = world.plane

    def authenticate(self, secret: str) -> Caller:
        self.looks.append(secret)
        self.asked.set()
        assert self.goes.wait(PATIENCE_S)
        return self._plane.authenticate(secret)


async def until(event: threading.Event) -> None:
    assert await asyncio.get_running_loop().run_in_executor(None, event.wait, PATIENCE_S)


def desk_of(world: World) -> tuple[Watched, EventDesk]:
    watched = Watched(world)
    plane: Any = watched
    return watched, EventDesk(plane)


def test_those_that_arrive_while_one_is_judged_are_judged_with_one_look_at_each_sender(world: World) -> None:
    watched, desk = desk_of(world)
    good, other = (world.secrets[role] for role in (Role.INGEST, Role.ADMIN))

    async def sending() -> list[Any]:
        first = asyncio.ensure_future(desk.kept(f"Bearer {good}", Delivery(body=body("first"))))
        await until(watched.asked)
        rest = [
            asyncio.ensure_future(desk.kept(f"Bearer {given}", Delivery(body=body(f"b{number}"))))
            for number, given in enumerate((good, other, "fw_unknown", good, "fw_unknown", good))
        ]
        await asyncio.sleep(0)
        watched.goes.set()
        return await asyncio.wait_for(asyncio.gather(first, *rest, return_exceptions=True), PATIENCE_S)

    told = asyncio.run(sending())
    assert watched.looks == [good, good, other, "fw_unknown"]
    assert [type(one) is Unauthenticated for one in told] == [False, False, False, True, False, True, False]
    kept = [one for one in told if type(one) is not Unauthenticated]
    assert sorted(one[0].event.fingerprint for one in kept) == ["b0", "b1", "b3", "b5", "first"]


def test_a_token_that_was_revoked_is_refused_at_the_next_body(world: World) -> None:
    watched, desk = desk_of(world)
    watched.goes.set()
    given = f"Bearer {world.secrets[Role.INGEST]}"

    async def sending(name: str) -> Any:
        return await asyncio.wait_for(desk.kept(given, Delivery(body=body(name))), PATIENCE_S)

    assert len(asyncio.run(sending("a"))) == 1
    named = world.plane.authenticate(world.secrets[Role.INGEST]).token
    world.plane.store.transact("revoke", lambda tx: tx.tokens.revoke(named))
    with pytest.raises(Unauthenticated):
        asyncio.run(sending("b"))


def test_a_body_that_another_thread_commits_is_answered_too(world: World) -> None:
    watched, desk = desk_of(world)
    watched.goes.set()
    admission = world.plane.events.admission
    ticket, leads = admission.submit("poll", normalise(body("polled")))
    assert leads

    def commit_both() -> None:
        ends = time.monotonic() + PATIENCE_S
        while admission.waiting < 2 and time.monotonic() < ends:
            time.sleep(0.01)
        admission.lead()

    async def sending() -> Any:
        waits = asyncio.ensure_future(desk.kept(f"Bearer {world.secrets[Role.INGEST]}", Delivery(body=body("sent"))))
        await asyncio.get_running_loop().run_in_executor(None, commit_both)
        return await asyncio.wait_for(waits, PATIENCE_S)

    assert [one.event.fingerprint for one in asyncio.run(sending())] == ["sent"]
    assert ticket.done.done()


def test_a_sender_may_have_only_so_many_requests_in_work(world: World) -> None:
    _, desk = desk_of(world)
    senders = [desk.sender("a") for _ in range(SENDING_MAX)]
    for one in senders:
        one.__enter__()
    with desk.sender("b"), pytest.raises(Retryable, match="requests of this sender"), desk.sender("a"):
        pass
    senders.pop().__exit__(None, None, None)
    with desk.sender("a"):
        pass
