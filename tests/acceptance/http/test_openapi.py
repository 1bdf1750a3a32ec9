"""The OpenAPI document is true: what it calls valid is taken, what it does not is refused, and answers have its shapes.

A generator makes requests from the document and judges each answer by it.  Beside it, the answers of a fleet in which
much has happened are held against the same shapes, since generated ids find mostly nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from fleetwarden.app.identity import Role
from tests.acceptance.http.test_reading import busy
from tests.acceptance.http.test_roles import MATRIX
from tests.acceptance.http.world import API, World


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = busy(tmp_path_factory.mktemp("openapi"))
    yield world
    world.close()


@pytest.fixture(scope="module")
def api(served: World) -> Any:
    return schemathesis.openapi.from_asgi("/api/openapi.json", served.app)


LOOSE = {
    ("put", "/policy/overrides/{id}"),  # a rule's own grammar is the policy file's; the document says: an object
    ("get", "/signals"),  # a cursor is one that was given, which the document cannot say
    ("get", "/approvals"),  # `state` and `status` may not contradict each other, which the document cannot say
}
NOT_GENERATED = {
    ("delete", "/tokens/{name}"),
    ("post", "/tokens/{name}/rotate"),  # they end the generator's own
}
WITHOUT_INPUT = {
    ("get", path)
    for path in (
        "/doctor",
        "/epochs",
        "/freeze",
        "/health",
        "/notify",
        "/playbooks",
        "/storm",
        "/plan",
        "/policy",
        "/recover",
        "/services",
        "/status",
        "/tokens",
    )
}
CASES = [
    (method, path, mode)
    for method, path in sorted(set(MATRIX) - NOT_GENERATED)
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or (method, path) not in WITHOUT_INPUT
]
EXAMPLES = settings().max_examples // 5  # each is a whole request


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_generated_requests_are_answered_as_documented(
    served: World, api: Any, method: str, path: str, mode: GenerationMode
) -> None:
    excluded = [checks.positive_data_acceptance] if (method, path) in LOOSE else []
    headers = {"Authorization": f"Bearer {served.secrets[Role.ADMIN]}"}

    @given(case=api[API + path][method].as_strategy(generation_mode=mode, headers=headers))
    @settings(suppress_health_check=list(HealthCheck), max_examples=EXAMPLES)
    def run(case: Any) -> None:
        case.call_and_validate(headers=headers, excluded_checks=excluded)

    run()


def problems_of(document: dict[str, Any], path: str, status: int, body: Any) -> list[str]:
    """What of an answer is not as the document says."""
    content = document["paths"][path]["get"]["responses"][str(status)]["content"]
    schema = {**content["application/json"]["schema"], "components": document["components"]}
    return [f"{one.instance_path}: {one.message}" for one in jsonschema_rs.validator_for(schema).iter_errors(body)]


def test_answers_about_a_fleet_in_which_much_has_happened_have_the_documented_shapes(served: World) -> None:
    client, document = served.client(), served.app.openapi()
    client.post("/freeze", json={"on": True, "reason": "lunch", "for_s": 60})
    rule = {"kind": "restart_service", "target": "web", "tier": "auto"}
    client.put("/policy/overrides/hurry", json={"rule": rule})
    assert client.put("/services/idle/override", json={"replicas": 2, "reason": "a test"}).status_code == 200
    kept = served.store.transact("keep", lambda tx: tx.texts.keep(kind="policy", name="policy.yml", body="version: 1"))
    asked = 0
    for path, operations in document["paths"].items():
        if "get" not in operations or not path.startswith(API):
            continue
        address = path.removeprefix(API)
        collection = address.partition("/{")[0]
        items = client.get(collection).json().get("items") or []
        if collection == "/policy/overrides":
            items = [{"id": "hurry"}]
        elif collection == "/ledger/texts":
            items = [{}]
        for item in items if "{" in address else [{}]:
            filled = address.replace("{digest}", kept)
            told = client.get(filled.replace("{id}", str(item.get("id"))).replace("{name}", str(item.get("name"))))
            assert told.status_code in (200, 503), address
            assert problems_of(document, path, told.status_code, told.json()) == [], address
            asked += 1
    assert asked > 60


def test_a_new_token_and_a_revoked_one_have_the_documented_shapes(served: World) -> None:
    client, document = served.client(), served.app.openapi()
    made = client.post("/tokens", json={"name": "fresh", "roles": ["viewer", "approver"], "for_s": 60})
    revoked = client.delete("/tokens/fresh")
    for answer, path, method in ((made, "/tokens", "post"), (revoked, "/tokens/{name}", "delete")):
        content = document["paths"][API + path][method]["responses"][str(answer.status_code)]["content"]
        schema = {**content["application/json"]["schema"], "components": document["components"]}
        jsonschema_rs.validator_for(schema).validate(answer.json())
