"""Query strings, read as strictly as bodies: a misspelt filter must not answer with everything.

Each list says which filters it takes; an unknown or doubled parameter, an unknown state, a time without a zone and a
page size out of range are refused and named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from fastapi import Request

from fleetwarden.app.listing import LIMIT_MAX
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.identifiers import Micros, instant
from fleetwarden.ports.stores import Page
from fleetwarden.web.addresses import NAME_PATTERN
from fleetwarden.web.problems import Malformed
from fleetwarden.web.texts import TEXT_PATTERN, problem_of_text

__all__ = [
    "hint_from",
    "hint_parameter",
    "history_from",
    "history_parameters",
    "known_query",
    "no_query",
    "page_from",
    "query_parameters",
    "reason_from",
    "reason_parameter",
    "since_from",
]

CURSOR_DIGITS_MAX = 18
TEXT_MAX = 200
REASON_MAX = 500
HISTORY_CURSOR = re.compile(r"(A[0-9]{1,18})?(D[0-9]{1,18})?(N[0-9]{1,18})?(X[0-9]{1,18})?", re.ASCII)
TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def no_query(request: Request) -> None:
    """A dependency of routes that take no query parameters.  Raises Malformed for any."""
    _known(request, ())


def known_query(request: Request, allowed: Sequence[str]) -> None:
    """Refuse parameters that the route does not take, and doubled ones.  Raises Malformed."""
    _known(request, allowed)


def _known(request: Request, allowed: Sequence[str]) -> dict[str, str]:
    """The parameters, each known and given once."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        shown = name[:40]
        if name not in allowed:
            close = get_close_matches(name, allowed, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(allowed) or 'none'}"
            raise Malformed(f"unknown query parameter {shown!r}", [Problem(shown, 0, "unknown")], hint=hint)
        if name in found:
            raise Malformed(f"query parameter {shown!r} stands twice", [Problem(shown, 0, "stands twice")])
        found[name] = value
    return found


def _bad(name: str, reason: str, hint: str) -> Malformed:
    return Malformed(f"query parameter {name!r} {reason}", [Problem(name, 0, reason)], hint=hint)


def page_from(request: Request, filters: Sequence[str], states: Sequence[str]) -> Page:
    """The page that a request of a list asks for.  `filters` are those of `target`, `kind`, `state`, `status` that the
    list takes, `states` the values of the last two.  Raises Malformed."""
    given = _known(request, (*filters, "since", "limit", "cursor"))
    readers: Mapping[str, Callable[[str], Any]] = {
        "target": lambda value: _text("target", value),
        "kind": lambda value: _text("kind", value),
        "state": lambda value: _state("state", value, states),
        "status": lambda value: _state("status", value, states),
        "since": _time,
        "limit": _limit,
        "cursor": _cursor,
    }
    read = {name: readers[name](value) for name, value in given.items()}
    state, status = read.get("state"), read.get("status")
    if state and status and state != status:
        raise _bad("status", "says something else than 'state'", "give one of them")
    return Page(
        target=read.get("target"),
        kind=read.get("kind"),
        state=state or status,
        since=read.get("since"),
        before=read.get("cursor"),
        limit=read.get("limit", 50),
    )


def _text(name: str, value: str) -> str:
    if not value or len(value) > TEXT_MAX or problem_of_text(value):
        raise _bad(name, "is no name", f"1 to {TEXT_MAX} characters")
    return value


def _state(name: str, value: str, states: Sequence[str]) -> str:
    if value not in states:
        close = get_close_matches(value, states, n=1)
        raise _bad(
            name, "is no state of these", f"did you mean {close[0]!r}?" if close else f"one of {', '.join(states)}"
        )
    return value


def _time(value: str) -> Micros:
    hint = "RFC 3339 with a zone, such as 2027-01-31T12:00:00Z (a '+' is written %2B)"
    if not TIME.fullmatch(value):
        raise _bad("since", "is no time", hint)
    try:
        return instant(datetime.fromisoformat(value.upper()))
    except (ValueError, OverflowError) as error:
        raise _bad("since", "is no time", hint) from error


def _number(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdigit() and len(value) <= CURSOR_DIGITS_MAX else None


def _limit(value: str) -> int:
    number = _number(value)
    if number is None or not 1 <= number <= LIMIT_MAX:
        raise _bad("limit", "is out of range", f"a whole number from 1 to {LIMIT_MAX}")
    return number


def _cursor(value: str) -> int:
    number = _number(value)
    if number is None:
        raise _bad("cursor", "is no cursor", "pass on what 'next' of the page before said")
    return number


def since_from(request: Request) -> Micros | None:
    """The one parameter `since`; None if it is left out.  Raises Malformed."""
    given = _known(request, ("since",))
    return _time(given["since"]) if "since" in given else None


def history_from(request: Request) -> tuple[Micros | None, int, str]:
    """What a request of a history asks for: since when, how many, and where to go on.  Raises Malformed."""
    given = _known(request, ("since", "limit", "cursor"))
    since = _time(given["since"]) if "since" in given else None
    cursor = given.get("cursor", "")
    if "cursor" in given and not HISTORY_CURSOR.fullmatch(cursor):
        raise _bad("cursor", "is no cursor", "pass on what 'next' of the page before said")
    return since, _limit(given["limit"]) if "limit" in given else 50, cursor


def reason_from(request: Request) -> str:
    """The one parameter `reason` of a request without a body; "" if it is left out.  Raises Malformed."""
    given = _known(request, ("reason",)).get("reason", "")
    if len(given) > REASON_MAX or problem_of_text(given):
        raise _bad("reason", "is no text", f"at most {REASON_MAX} characters")
    return given


def hint_from(request: Request) -> str:
    """The one parameter `source` of a body of events; "" if it is left out.  Raises Malformed."""
    given = _known(request, ("source",))
    return _text("source", given["source"]) if "source" in given else ""


def hint_parameter() -> dict[str, Any]:
    """The same for OpenAPI."""
    text = {"type": "string", "pattern": NAME_PATTERN}
    told = "What the sender is called, where its content does not tell."
    return {"parameters": [{"name": "source", "in": "query", "required": False, "schema": text, "description": told}]}


def reason_parameter() -> dict[str, Any]:
    """The same for OpenAPI."""
    text = {"type": "string", "maxLength": REASON_MAX, "pattern": TEXT_PATTERN}
    return {"parameters": [{"name": "reason", "in": "query", "required": False, "schema": text, "description": "Why."}]}


def history_parameters() -> dict[str, Any]:
    """The same for OpenAPI."""
    found = query_parameters((), ())
    for one in found["parameters"]:
        if one["name"] == "cursor":
            one["schema"] = {"type": "string", "pattern": f"^{HISTORY_CURSOR.pattern}$"}
    return found


def query_parameters(filters: Sequence[str], states: Sequence[str]) -> dict[str, Any]:
    """The same for OpenAPI."""
    text = {"type": "string", "minLength": 1, "maxLength": TEXT_MAX, "pattern": TEXT_PATTERN}
    state = {"type": "string", "enum": list(states)}
    schemas: dict[str, tuple[dict[str, Any], str]] = {
        "target": (text, "Only of this target."),
        "kind": (text, "Only of this kind."),
        "state": (state, "Only in this state."),
        "status": (state, "The same as `state`."),
        "since": ({"type": "string", "format": "date-time"}, "Only at or after this time (RFC 3339 with a zone)."),
        "limit": ({"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": 50}, "Items of one page."),
        "cursor": (
            {"type": "integer", "minimum": 0, "maximum": 10**CURSOR_DIGITS_MAX - 1},
            "`next` of the page before.",
        ),
    }
    wanted = (*filters, "since", "limit", "cursor")
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": False,
                "schema": schemas[name][0],
                "description": schemas[name][1],
            }
            for name in wanted
        ]
    }
