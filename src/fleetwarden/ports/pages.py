"""How a list is asked for, whatever it lists.  A page names its filters; a list that lacks one refuses it."""

from __future__ import annotations

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import Micros

__all__ = ["Page"]


class Page(Record):
    """Filters of a list, newest first.  `before` is the seq of the last item of the page before; limit 1 to 500."""

    target: str | None = None
    kind: str | None = None
    state: str | None = None  # verdict of decisions, status of approvals, state of everything else
    since: Micros | None = None
    before: int | None = None
    limit: int = 50
