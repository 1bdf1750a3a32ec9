"""The query string of the list of signals, read as strictly as those of the ledger's lists.

Its cursors are opaque text that is bound to what is declared, not numbers of rows, and a page may be larger.
"""

from __future__ import annotations

import re
from typing import Any

from fastapi import Request

from fleetwarden.app.signal_views import SAMPLES_MAX
from fleetwarden.domain.errors import Problem
from fleetwarden.web.problems import Malformed
from fleetwarden.web.queries import known_query

__all__ = ["signal_page_from", "signal_page_parameters"]

CURSOR = re.compile(r"[A-Za-z0-9_\-]{1,4096}", re.ASCII)
LIMIT = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)


def signal_page_from(request: Request) -> tuple[int | None, str]:
    """Limit (None: the default) and cursor ("": the first page) that a request asks for.  Raises Malformed."""
    known_query(request, ("limit", "cursor"))
    given = dict(request.query_params)
    limit, cursor = given.get("limit"), given.get("cursor")
    if limit is not None and (not LIMIT.fullmatch(limit) or int(limit) > SAMPLES_MAX):
        raise _bad("limit", "is out of range", f"a whole number from 1 to {SAMPLES_MAX}")
    if cursor is not None and not CURSOR.fullmatch(cursor):
        raise _bad("cursor", "is no cursor", "pass on what 'next' of the page before said")
    return None if limit is None else int(limit), cursor or ""


def _bad(name: str, reason: str, hint: str) -> Malformed:
    return Malformed(f"query parameter {name!r} {reason}", [Problem(name, 0, reason)], hint=hint)


def signal_page_parameters() -> dict[str, Any]:
    """The same for OpenAPI."""
    limit = {"type": "integer", "minimum": 1, "maximum": SAMPLES_MAX}
    cursor = {"type": "string", "pattern": f"^{CURSOR.pattern}$"}
    return {
        "parameters": [
            {"name": "limit", "in": "query", "required": False, "schema": limit, "description": "Items of one page."},
            {
                "name": "cursor",
                "in": "query",
                "required": False,
                "schema": cursor,
                "description": "`next` of the page before.",
            },
        ]
    }
