"""The policy in force, and rules that an administrator writes at run time: they hold from the next decision on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from starlette.responses import Response

from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.identifiers import name_problem
from fleetwarden.web import schemas
from fleetwarden.web.addresses import Name
from fleetwarden.web.answers import answer
from fleetwarden.web.bodies import ClosedBody, documented, json_body, parsed_json
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.problems import Malformed
from fleetwarden.web.queries import no_query

__all__ = ["router"]

router = APIRouter(tags=["policy"], dependencies=[Depends(no_query)])


class OverrideOrder(ClosedBody):
    """A rule as it stands in the policy file: under `rule`, under `rule_json` (an object, or JSON as text), or flat.

    `active` false keeps it without letting it decide.
    """

    rule: dict[str, Any] | None = None
    rule_json: dict[str, Any] | str | None = None
    active: bool = True
    type: Literal["governance_rule"] = "governance_rule"
    scope: Literal["action_policy"] = "action_policy"
    kind: Any = None
    target: Any = None
    group: Any = None
    source: Any = None
    substrate: Any = None
    direction: Any = None
    tier: Any = None
    rate_limit: Any = None
    blast_radius: Any = None
    maintenance_window: Any = None
    approvers: Any = None
    final: Any = None

    def written(self) -> dict[str, Any]:
        """The rule itself.  Raises Malformed if it stands in two places."""
        flat = {name: getattr(self, name) for name in sorted(self.model_fields_set - _ABOUT)}
        places: list[dict[str, Any] | str] = [flat] if flat else []
        places += [one for one in (self.rule, self.rule_json) if one is not None]
        if len(places) > 1:
            raise Malformed("the rule stands in two places", hint="send it under rule, under rule_json, or flat")
        if not places:
            return {}
        [rule] = places
        if isinstance(rule, dict):
            return rule
        read = parsed_json(rule.encode())
        if not isinstance(read, dict):
            raise Malformed("rule_json holds no JSON object")
        return read


_ABOUT = frozenset({"rule", "rule_json", "active", "type", "scope"})  # what is said of a rule, not by it


@router.get("/policy", response_model=schemas.Policy)
def get_policy(caller: AnyCaller, plane: Plane) -> Response:
    """The policy that decides now."""
    return answer(plane.fleet.policy(caller))


@router.get("/policy/overrides/{id}", response_model=schemas.Override)
def get_override(caller: AnyCaller, plane: Plane, id: Name) -> Response:  # noqa: A002 - the address's own word
    """One rule that was written at run time."""
    name = _override_id(id)
    found = [one for one in plane.administration.overrides(caller) if one["id"] == name]
    if not found:
        raise NotFound(f"there is no policy override {name!r}")
    return answer(found[0])


@router.put("/policy/overrides/{id}", response_model=schemas.Override, openapi_extra=documented(OverrideOrder))
def put_override(
    caller: AnyCaller,
    plane: Plane,
    id: Name,  # noqa: A002 - the address's own word
    body: Annotated[OverrideOrder, json_body(OverrideOrder)],
) -> Response:
    """Write or replace a rule that stands before the file's."""
    return answer(plane.administration.put_override(caller, _override_id(id), body.written(), active=body.active))


@router.delete("/policy/overrides/{id}", status_code=204)
def delete_override(caller: AnyCaller, plane: Plane, id: Name) -> Response:  # noqa: A002 - the address's own word
    """Remove a rule that was written at run time."""
    plane.administration.delete_override(caller, _override_id(id))
    return Response(status_code=204)


def _override_id(given: str) -> str:
    """Raises Malformed if it is no name."""
    if name_problem(given):
        raise Malformed("that is no id of an override", hint="1 to 63 letters, digits, '.', '_' or '-'")
    return given
