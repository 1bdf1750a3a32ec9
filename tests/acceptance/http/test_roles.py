"""Who may do what: every route of the API, asked with every role, with no token and with a wrong one."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.routing import iter_route_contexts

from fleetwarden.app.identity import Role
from tests.acceptance.http.world import API, World

LOOK = {Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.ADMIN}
OPERATE = {Role.OPERATOR, Role.ADMIN}
PUSH = {Role.INGEST, Role.ADMIN}
APPROVE = {Role.APPROVER, Role.ADMIN}
ADMINISTER = {Role.ADMIN}
ANYBODY = set(Role)
LISTS = (
    "approvals",
    "decisions",
    "executions",
    "actions",
    "work",
    "reports",
    "freezes",
    "service_overrides",
    "foreign",
    "intents",
    "messages",
    "watches",
    "quarantines",
    "events",
    "journal",
)
SAMPLES = {
    "samples": [
        {"source": "app", "service": "web", "kind": "queue", "value": 1, "aggregation": "fleet_total", "unit": "items"}
    ]
}
RULE = {"rule": {"kind": "restart_service", "target": "web", "tier": "forbidden"}}

# Every route that asks for a token: who may, and a request that is valid for those who may.
MATRIX: dict[tuple[str, str], tuple[set[Role], Any]] = {
    ("get", "/services"): (LOOK, None),
    ("get", "/services/{name}"): (LOOK, None),
    ("get", "/services/{name}/explain"): (LOOK, None),
    ("get", "/services/{name}/history"): (LOOK, None),
    ("get", "/services/{name}/shadow"): (LOOK, None),
    ("get", "/services/{name}/versions"): (LOOK, None),
    ("get", "/services/{name}/logs"): (LOOK, None),
    ("put", "/services/{name}/override"): (OPERATE, {"replicas": 2, "reason": "load"}),
    ("delete", "/services/{name}/override"): (OPERATE, None),
    ("post", "/services/{name}/adopt"): (OPERATE, {"reason": "right"}),
    ("post", "/services/{name}/reassert"): (OPERATE, {"reason": "wrong"}),
    ("get", "/plan"): (LOOK, None),
    ("get", "/status"): (LOOK, None),
    **{("get", f"/{topic}"): (LOOK, None) for topic in LISTS},
    **{("get", f"/{topic}/{{id}}"): (LOOK, None) for topic in LISTS},
    ("post", "/actions"): (OPERATE, {"kind": "restart_service", "target": "web", "reason": "stuck"}),
    ("post", "/actions/{id}/claim"): (OPERATE, {}),
    ("post", "/actions/{id}/result"): (OPERATE, {"ok": True, "detail": "merged"}),
    ("post", "/gate/flagger"): (OPERATE, {"name": "shop", "namespace": "test", "phase": "Progressing"}),
    ("post", "/signals"): (PUSH, SAMPLES),
    ("post", "/events"): (PUSH, {"message": "a note"}),
    ("post", "/events/{source}"): (PUSH, {"message": "a note"}),
    ("get", "/shadow"): (LOOK, None),
    ("get", "/signals"): (LOOK, None),
    ("get", "/intents/{id}/lineage"): (LOOK, None),
    ("post", "/approvals/grant"): (APPROVE, {"job_id": "77", "decision": "approved"}),
    ("post", "/approvals/reject"): (APPROVE, {"job_id": "77"}),
    ("get", "/freeze"): (LOOK, None),
    ("post", "/freeze"): (OPERATE, {"on": True, "reason": "lunch"}),
    ("get", "/ledger/export"): (LOOK, None),
    ("get", "/ledger/texts/{digest}"): (LOOK, None),
    ("get", "/recover"): (LOOK, None),
    ("post", "/recover/{id}"): (OPERATE, {"as": "failed", "reason": "looked"}),
    ("get", "/policy"): (LOOK, None),
    ("get", "/policy/overrides/{id}"): (LOOK, None),
    ("put", "/policy/overrides/{id}"): (ADMINISTER, RULE),
    ("delete", "/policy/overrides/{id}"): (ADMINISTER, None),
    ("get", "/tokens"): (ADMINISTER, None),
    ("post", "/tokens"): (ADMINISTER, {"name": "fresh", "roles": ["viewer"]}),
    ("delete", "/tokens/{name}"): (ADMINISTER, None),
    ("post", "/tokens/{name}/rotate"): (ADMINISTER, {"overlap_s": 60}),
    ("get", "/notify"): (LOOK, None),
    ("post", "/notify/test"): (OPERATE, {"target": "oncall"}),
    ("get", "/doctor"): (LOOK, None),
    ("post", "/services/{name}/quarantine/clear"): (OPERATE, {"reason": "mended"}),
    ("get", "/storm"): (LOOK, None),
    ("post", "/storm/clear"): (OPERATE, {"reason": "power is back"}),
    ("get", "/playbooks"): (LOOK, None),
    ("get", "/epochs"): (LOOK, None),
    ("post", "/epochs/release"): (ADMINISTER, {"reason": "looked"}),
    ("get", "/health"): (ANYBODY, None),
    ("post", "/shutdown"): (ADMINISTER, {"services": False}),
}
IN_PATHS = {"{source}": "alertmanager", "{name}": "web", "{id}": "77", "{digest}": f"sha256:{0:064}"}


def address(path: str) -> str:
    for name, value in IN_PATHS.items():
        path = path.replace(name, value)
    return path


def test_the_matrix_names_every_route_that_asks_for_a_token(world: World) -> None:
    paths = world.app.openapi()["paths"]
    secured = {
        (method, path.removeprefix(API))
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation.get("security")
    }
    assert secured == set(MATRIX)


def test_beside_these_there_are_the_probes_the_document_and_the_page(world: World) -> None:
    asked = {f"{API}{path}" for _, path in MATRIX}
    open_to_all = {one.path for one in iter_route_contexts(world.app.routes)} - asked
    pages = {"/", "/login", "/logout", "/page/approvals", "/page/freeze", "/static/page.css"}
    assert open_to_all == {"/livez", "/readyz", "/metrics", "/api/openapi.json", *pages}


@pytest.mark.req("RUN-3")
@pytest.mark.parametrize("role", list(Role))
def test_a_role_opens_what_it_is_for_and_nothing_else(world: World, role: Role) -> None:
    client = world.client(role)
    for (method, path), (allowed, body) in MATRIX.items():
        answer = client.request(method, address(path), json=body)
        if path == "/gate/flagger" and role in allowed:
            assert (answer.status_code, answer.json()["go"]) == (403, False), "a gate that halts was asked"
        elif role in allowed:
            assert answer.status_code not in (400, 401, 403, 405, 500), f"{method} {path}: {answer.text}"
        else:
            assert answer.status_code == 403, f"{method} {path}: {answer.text}"
            assert answer.json()["code"] == "forbidden"


@pytest.mark.req("RUN-3")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer fw_not-a-token-of-ours"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic YWRtaW46YWRtaW4="},
        {"Authorization": "Bearer " + "x" * 100_000},
    ],
    ids=["none", "wrong", "empty", "another scheme", "long"],
)
def test_without_a_valid_token_every_route_answers_the_same(world: World, headers: dict[str, str]) -> None:
    answers = set()
    for (method, path), (_, body) in MATRIX.items():
        answer = world.bare.request(method, f"{API}{address(path)}", json=body, headers=headers)
        assert answer.status_code == 401, f"{method} {path}"
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["content-type"] == "application/problem+json"
        answers.add(answer.content)
    assert len(answers) == 1
    assert not world.ended.is_set()


def test_a_token_in_the_query_or_a_sessions_cookie_opens_no_route(world: World) -> None:
    assert world.bare.get(f"{API}/status", params={"token": world.secrets[Role.ADMIN]}).status_code == 401
    assert world.browser().http.get(f"{API}/status").status_code == 401


@pytest.mark.req("RUN-3")
def test_a_revoked_token_and_one_past_its_end_open_nothing(world: World) -> None:
    revoked, short = (
        world.client_of(world.token("going", Role.VIEWER)),
        world.client_of(world.token("short", Role.VIEWER, for_s=60)),
    )
    assert revoked.get("/status").status_code == short.get("/status").status_code == 200
    assert world.client().delete("/tokens/going").status_code == 200
    world.clock.advance(61)
    assert revoked.get("/status").status_code == short.get("/status").status_code == 401


@pytest.mark.req("RUN-3")
def test_who_may_not_changes_nothing(world: World) -> None:
    job_id = world.ask_for_restart()
    viewer = world.client(Role.VIEWER)
    viewer.post("/approvals/grant", json={"job_id": job_id, "decision": "approved"})
    viewer.post("/freeze", json={"on": True})
    viewer.put("/policy/overrides/loose", json={"rule": {"kind": "*", "target": "*", "tier": "auto"}})
    viewer.post("/shutdown", json={"services": False})
    assert viewer.get("/approvals/1").json()["status"] == "pending"
    assert viewer.get("/freeze").json()["frozen"] is False
    assert viewer.get("/policy").json()["overrides"] == []
    assert not world.ended.is_set()
