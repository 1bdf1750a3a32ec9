"""The sealed ledger, page by page, as `fleetwarden ledger verify` and `ledger export` read it.

Each page is one short read of the store.  What a page holds is put together by `app.ledger_export`, and judged by
whoever asked.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from fleetwarden.app.ledger_export import CURSOR
from fleetwarden.web import schemas
from fleetwarden.web.answers import answer
from fleetwarden.web.callers import AnyCaller, Plane
from fleetwarden.web.queries import known_query, no_query

DIGEST = "^sha256:[0-9a-f]{64}$"
_Digest = Annotated[str, Path(json_schema_extra={"pattern": DIGEST})]

__all__ = ["router"]

router = APIRouter(tags=["ledger"])
_CursorQuery = Annotated[
    str | None, Query(json_schema_extra={"pattern": CURSOR}, description="`next` of the page before; none: begin.")
]


@router.get("/ledger/export", response_model=schemas.LedgerPage)
def export_ledger(request: Request, caller: AnyCaller, plane: Plane, cursor: _CursorQuery = None) -> Response:
    """The next items of the export of the whole ledger: entries, seals, the unsealed tail, texts, checkpoints."""
    known_query(request, ("cursor",))
    return answer(plane.ledger.page(caller, cursor))


@router.get("/ledger/texts/{digest}", response_model=schemas.KeptText, dependencies=[Depends(no_query)])
def get_text(caller: AnyCaller, plane: Plane, digest: _Digest) -> Response:
    """A text of the configuration as it was in force, by the digest that decisions name.  Registries: admins."""
    return answer(plane.ledger.text(caller, digest))
