"""The table of refusals: every error has its status, and no answer tells more than it should."""

from __future__ import annotations

import json

import pytest

from fleetwarden.app.approving import NotCarriedOut
from fleetwarden.app.identity import Forbidden, Unauthenticated
from fleetwarden.domain import errors
from fleetwarden.domain.errors import FleetError, Misconfigured, Problem
from fleetwarden.web.problems import BodyTimeout, BodyTooLarge, Malformed, answer_to_unexpected, problem, status_of

EXPECTED = {
    errors.Refused("no"): 409,
    errors.Refused("own request", code="self_approval"): 403,
    errors.Refused("a NUL", code="unstorable"): 400,
    errors.Refused("long", code="too_large"): 413,
    errors.Fenced("old"): 409,
    errors.NotCalled("late"): 409,
    errors.NotFound("none"): 404,
    errors.Conflict("moved"): 409,
    errors.IllegalMove("moved"): 409,
    errors.TargetBusy("busy"): 409,
    errors.StaleRevision("stale"): 409,
    errors.OutboxConflict("other"): 409,
    errors.Retryable("later"): 503,
    errors.StoreUnavailable("gone"): 503,
    errors.OutcomeUnknown("who knows"): 503,
    Misconfigured("wrong"): 400,
    Malformed("wrong"): 400,
    BodyTooLarge("long"): 413,
    BodyTimeout("slow"): 408,
    Unauthenticated("who"): 401,
    Forbidden("not you"): 403,
    NotCarriedOut("void"): 409,
    FleetError("a fault"): 500,
}


@pytest.mark.parametrize(("error", "status"), EXPECTED.items(), ids=lambda one: getattr(one, "code", one))
def test_every_error_has_its_status(error: FleetError, status: int) -> None:
    assert status_of(error) == status


def test_no_error_of_the_tree_is_left_to_chance() -> None:
    def below(kind: type[FleetError]) -> set[type[FleetError]]:
        return {kind}.union(*(below(one) for one in kind.__subclasses__()))

    known = {type(error) for error in EXPECTED}
    ours = {kind for kind in below(FleetError) if kind.__module__.startswith(("fleetwarden.domain", "fleetwarden.web"))}
    assert ours <= known


def test_a_refusal_is_problem_json_with_code_hint_and_places() -> None:
    answer = problem(
        400,
        "misconfigured",
        "2 problems",
        hint="mend them",
        findings=[Problem("policy.yml", 12, "hours"), Problem("on", 0, "is missing")],
    )
    assert answer.headers["content-type"] == "application/problem+json"
    assert json.loads(bytes(answer.body)) == {
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "detail": "2 problems",
        "code": "misconfigured",
        "hint": "mend them",
        "errors": [{"where": "policy.yml:12", "reason": "hours"}, {"where": "on", "reason": "is missing"}],
    }


def test_statuses_carry_the_headers_that_clients_act_on() -> None:
    assert problem(401, "unauthenticated", "who").headers["www-authenticate"] == 'Bearer realm="fleetwarden"'
    assert problem(503, "store_unavailable", "gone").headers["retry-after"] == "1"


def test_titles_are_the_same_on_every_python() -> None:
    assert json.loads(bytes(problem(413, "too_large", "long").body))["title"] == "Content Too Large"


def test_a_fault_of_ours_tells_nothing_of_itself() -> None:
    answer = answer_to_unexpected("GET", "/x", RuntimeError("the inside"))
    assert answer.status_code == 500
    assert b"inside" not in bytes(answer.body)
