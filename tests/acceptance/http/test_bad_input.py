"""Whatever cannot be read is a 400 that names the field, a 413 or a 408; nothing of it happens, and nothing breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetwarden.app.identity import Role
from tests.acceptance.http.world import API, World

BODIES = {
    "nothing": b"",
    "blank": b" \n",
    "cut": b'{"on": tr',
    "not JSON": b"on=true",
    "not UTF-8": b'{"on": true, "reason": "\xff"}',
    "UTF-16": '{"on": true}'.encode("utf-16"),
    "a list": b"[true]",
    "a text": b'"on"',
    "null": b"null",
    "a doubled field": b'{"on": false, "on": true}',
    "nested deeply": b'{"on": true, "reason": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "nested deeply, not closed": b"[" * 200_000,
    "nested deeply, objects": b'{"a":' * 20_000,
    "NaN": b'{"on": true, "for_s": NaN}',
    "infinity": b'{"on": true, "for_s": Infinity}',
    "a float without end": b'{"on": true, "for_s": 1e999}',
    "a whole number beyond 64 bits": b'{"on": true, "for_s": 9223372036854775808}',
    "a whole number of 5,000 digits": b'{"on": true, "for_s": ' + b"9" * 5000 + b"}",
    "NUL": b'{"on": true, "reason": "a\\u0000b"}',
    "an escape sequence": b'{"on": true, "reason": "\\u001b[2J"}',
    "half a surrogate pair": b'{"on": true, "reason": "\\ud800"}',
    "a NUL in a field's name": b'{"on": true, "\\u0000": 1}',
    "text for a flag": b'{"on": "true"}',
    "a number for a flag": b'{"on": 1}',
    "nothing for a flag": b'{"on": null}',
    "an unknown field": b'{"on": true, "untill": "2030-01-01T00:00:00Z"}',
    "text for a number": b'{"on": true, "for_s": "60"}',
    "too short": b'{"on": true, "for_s": 0}',
    "too long": b'{"on": true, "for_s": 1e12}',
    "a negative time": b'{"on": true, "for_s": -60}',
    "a time for a thaw": b'{"on": false, "for_s": 60}',
    "a reason that is too long": b'{"on": true, "reason": "' + b"x" * 2001 + b'"}',
    "two scopes": b'{"on": true, "kind": "restart_service", "service": "web"}',
    "a kind that is none": b'{"on": true, "kind": "restart"}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_that_cannot_be_read_is_refused_and_freezes_nothing(refusing: World, body: bytes) -> None:
    client = refusing.client()
    answer = client.post("/freeze", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert (told["status"], told["title"]) == (400, "Bad Request")
    assert told["detail"]
    assert client.get("/freeze").json()["frozen"] is False


def test_a_mark_of_the_byte_order_is_no_part_of_the_body(refusing: World) -> None:
    body = b"\xef\xbb\xbf" + b'{"on": true, "reason": "lunch"}'
    answered = refusing.client().post("/freeze", content=body, headers={"Content-Type": "application/json"})
    assert (answered.status_code, answered.json()["frozen"]) == (200, True)
    assert refusing.client().post("/freeze", json={"on": False}).json()["frozen"] is False


def test_two_scopes_in_one_order_are_both_named(refusing: World) -> None:
    told = refusing.client().post("/freeze", json={"on": True, "group": "web", "service": "web"}).json()
    assert [one["where"] for one in told["errors"]] == ["group", "service"]


def test_every_wrong_field_is_named_at_once_and_no_value_comes_back(refusing: World) -> None:
    told = refusing.client().post("/tokens", json={"nane": "s3cret", "roles": "s3cret", "for_s": "s3cret"})
    assert [one["where"] for one in told.json()["errors"]] == ["name", "roles", "for_s", "nane"]
    assert "did you mean 'name'?" in told.text
    assert "s3cret" not in told.text


@pytest.fixture
def small(tmp_path: Path) -> Iterator[World]:
    """A world that takes bodies of at most 1,000 bytes."""
    made = World(tmp_path, body_limit_bytes=1000)
    yield made
    made.close()


def padded(size: int) -> bytes:
    body = b'{"on": true}'
    return body + b" " * (size - len(body))


def test_a_body_up_to_the_limit_is_taken_and_one_byte_more_is_not(small: World) -> None:
    client = small.client()
    assert client.post("/freeze", content=padded(1001)).status_code == 413
    assert client.get("/freeze").json()["frozen"] is False
    assert client.post("/freeze", content=padded(1000)).status_code == 200


def test_a_body_in_chunks_is_refused_as_soon_as_it_is_over_the_limit(small: World) -> None:
    sent = 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 1
            yield b" " * 600

    answer = small.client().post("/freeze", content=chunks())
    assert answer.status_code == 413
    assert answer.json()["code"] == "too_large"


async def never_read() -> Any:
    raise AssertionError("the body must not be read")


async def never_arrives() -> Any:
    await asyncio.Event().wait()


def ask(world: World, receive: Callable[[], Awaitable[Any]], *, token: str = "", length: str = "10") -> int:
    """The status of a POST whose body is behind `receive`."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-length", length.encode()), (b"authorization", f"Bearer {token}".encode())]
    scope = {
        "type": "http", "method": "POST", "path": f"{API}/freeze", "raw_path": b"", "query_string": b"",
        "headers": headers, "scheme": "http", "server": ("127.0.0.1", 8800), "client": ("127.0.0.1", 1),
        "http_version": "1.1", "root_path": "", "asgi": {"version": "3.0"},
    }  # fmt: skip
    asyncio.run(world.app(scope, receive, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize("length", ["1001", "9" * 30])
def test_an_announced_body_over_the_limit_is_refused_unread(small: World, length: str) -> None:
    assert ask(small, never_read, token=small.secrets[Role.ADMIN], length=length) == 413


def test_without_a_token_no_body_is_read_at_all(small: World) -> None:
    assert ask(small, never_read, token="fw_wrong") == 401


def test_a_body_that_does_not_arrive_is_given_up(tmp_path: Path) -> None:
    world = World(tmp_path, body_timeout_s=0.01)
    try:
        assert ask(world, never_arrives, token=world.secrets[Role.ADMIN]) == 408
    finally:
        world.close()


QUERIES = {
    "an unknown filter": "/approvals?staus=pending",
    "an unknown state": "/approvals?status=open",
    "a state of another list": "/decisions?state=pending",
    "two states": "/approvals?status=pending&state=granted",
    "a doubled filter": "/approvals?status=pending&status=granted",
    "a filter that the list lacks": "/reports?target=web",
    "an empty target": "/decisions?target=",
    "a NUL": "/decisions?target=%00",
    "a long target": "/decisions?target=" + "x" * 201,
    "a date without a time": "/decisions?since=2027-01-31",
    "a time without a zone": "/decisions?since=2027-01-31T12:00:00",
    "a day that does not exist": "/decisions?since=2027-02-30T12:00:00Z",
    "a week date": "/decisions?since=2027-W01-1T12:00:00Z",
    "digits of another script": "/decisions?since=%D9%A2027-01-31T12:00:00Z",
    "a span": "/decisions?since=2h",
    "limit 0": "/decisions?limit=0",
    "limit 501": "/decisions?limit=501",
    "limit -1": "/decisions?limit=-1",
    "limit 1.5": "/decisions?limit=1.5",
    "a limit of many digits": "/decisions?limit=" + "9" * 5000,
    "a cursor that is none": "/decisions?cursor=abc",
    "a negative cursor": "/decisions?cursor=-5",
    "a query where none is taken": "/services?limit=5",
    "a query beside a body": "/freeze?on=true",
}


@pytest.mark.parametrize("address", QUERIES.values(), ids=QUERIES)
def test_a_bad_query_is_refused_and_never_answers_with_everything(refusing: World, address: str) -> None:
    answer = refusing.client().get(address)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["where"]
    assert "items" not in answer.json()


@pytest.mark.parametrize(
    ("method", "address", "allowed"),
    [
        ("PUT", "/freeze", "GET, HEAD, POST"),
        ("PATCH", "/policy/overrides/x", "DELETE, GET, HEAD, PUT"),
        ("TRACE", "/status", "GET, HEAD"),
        ("OPTIONS", "/approvals/grant", "POST"),
        ("DELETE", "/approvals/1", "GET, HEAD"),
    ],
)
def test_a_method_that_an_address_lacks_is_a_405_that_names_those_it_has(
    refusing: World, method: str, address: str, allowed: str
) -> None:
    answer = refusing.client().request(method, address)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    "address",
    ["/services/web/override", "/stream", "/nope", "/"],
)
def test_routes_of_later_do_not_exist_yet(refusing: World, address: str) -> None:
    answer = refusing.client().post(address, json={})
    assert answer.status_code in (404, 405)
    assert answer.headers["content-type"] == "application/problem+json"
