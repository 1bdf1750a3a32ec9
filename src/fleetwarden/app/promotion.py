"""Promotions that ask first: a pipeline's own merge is made only after a claim that the plane answered with yes.

The ledger decides what is done, never this process's memory.  What could not be read, what was lost on the way, and
what somebody else has claimed is no yes.  A merge whose end could not be told is told again, and never made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from threading import Lock
from typing import Any, Protocol

from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.identity import Caller, Role
from fleetwarden.domain.actions import Record
from fleetwarden.domain.errors import FleetError
from fleetwarden.domain.identifiers import JsonValue, digest
from fleetwarden.domain.scrubbing import scrubbed

__all__ = ["KIND", "Actions", "GovernedAutoMerger", "MergeState", "PlaneActions", "Promotion"]

KIND = "merge_promotion"
DETAIL_MAX = 500
_UNTOLD = ("running", "recovery_pending")  # states of what was claimed and has no end on record


class MergeState(StrEnum):
    """What became of a promotion.  Only `merged` and `failed` say that the merge was made, or tried."""

    MERGED = "merged"
    WAITING = "waiting"  # a person has not answered, or a freeze or another action stands before it: ask again later
    BLOCKED = "blocked"  # denied, rejected, expired, or nobody could be asked; nothing was merged
    FAILED = "failed"  # the merge said so
    UNKNOWN = "unknown"  # claimed, and its end is not on record: never merged again, a person settles it


class Promotion(Record):
    """The answer about one promotion, with the rows that say why."""

    state: MergeState
    reason: str
    action_id: str = ""
    approval_id: str = ""

    @property
    def merged(self) -> bool:
        return self.state is MergeState.MERGED


class Actions(Protocol):
    """Where a promotion asks: `ActionsOverHttp` for a plane elsewhere, `PlaneActions` for one in this process.

    Every method answers with what `POST /actions` and `GET /actions/{id}` answer, and raises FleetError."""

    def propose(
        self, *, kind: str, target: str, params: Mapping[str, JsonValue], reason: str, key: str
    ) -> Mapping[str, Any]: ...

    def claim(self, action_id: str) -> Mapping[str, Any]: ...

    def report(self, action_id: str, *, ok: bool, detail: str = "", code: str | None = None) -> Mapping[str, Any]: ...


class PlaneActions:
    """The outside actions of a plane in this process, as `person`, whom the ledger names."""

    def __init__(self, plane: Plane, person: str, *, role: Role = Role.OPERATOR) -> None:
        self._outside = plane.remedies.outside
        self._caller = Caller(person=person, token="", roles=(role.value,))

    def propose(
        self, *, kind: str, target: str, params: Mapping[str, JsonValue], reason: str, key: str
    ) -> Mapping[str, Any]:
        return self._outside.propose(self._caller, kind=kind, target=target, params=params, reason=reason, key=key)

    def claim(self, action_id: str) -> Mapping[str, Any]:
        return self._outside.claim(self._caller, action_id)

    def report(self, action_id: str, *, ok: bool, detail: str = "", code: str | None = None) -> Mapping[str, Any]:
        return self._outside.report(self._caller, action_id, ok=ok, detail=detail, code=code)


class GovernedAutoMerger:
    """Wraps `merge_promotion`, a pipeline's own function: no flip without an allow or a grant.

    `merge_promotion(target, params)` makes the merge and returns words about it; whatever it raises is a failure of the
    merge.  `actions`: where it is asked.  `kind`: what policy rules name it.  One merger may be used by many threads.
    """

    def __init__(
        self,
        actions: Actions,
        merge_promotion: Callable[[str, Mapping[str, JsonValue]], str | None],
        *,
        kind: str = KIND,
    ) -> None:
        self._actions = actions
        self._merge = merge_promotion
        self._kind = kind
        self._lock = Lock()
        self._untold: dict[str, tuple[bool, str]] = {}  # action → how it ended, where the plane has not heard it

    def promote(
        self, target: str, params: Mapping[str, JsonValue], *, reason: str, key: str | None = None
    ) -> Promotion:
        """Ask, and merge if the answer is yes; call it again with the same arguments while it is `waiting`.

        `key`: names this promotion, at most 200 characters; without one it is made of target and params, so that one
        revision is promoted once.  A no, and an end, stand for their key: another key asks anew; a denial for a freeze
        or a storm stands only while that lasts.  It raises nothing
        that the plane or the merge raises: the answer says it.
        """
        named = key or digest(["promotion", self._kind, target, dict(params)])
        try:
            told = self._actions.propose(kind=self._kind, target=target, params=params, reason=reason, key=named)
        except FleetError as error:
            return Promotion(state=MergeState.BLOCKED, reason=f"nobody could be asked: {error.message}")
        action = str(told.get("action_id") or "")
        state, approval = str(told.get("state")), str(told.get("approval_id") or "")
        why = str(told.get("reason") or "")
        if state == "authorised" and action:
            return self._flip(action, approval, target, params)
        if state in _UNTOLD and (ended := self._ended(action)) is not None:
            return self._tell(action, approval, *ended)
        return Promotion(state=_OF.get(state, MergeState.BLOCKED), reason=why, action_id=action, approval_id=approval)

    def _flip(self, action: str, approval: str, target: str, params: Mapping[str, JsonValue]) -> Promotion:
        try:
            claimed = self._actions.claim(action)
        except FleetError as error:  # a lost answer may hide a claim: the next call reads what stands
            return Promotion(
                state=MergeState.WAITING, reason=f"not claimed: {error.message}", action_id=action, approval_id=approval
            )
        if claimed.get("state") != "running":
            why = f"the claim was answered with {claimed.get('state')}"
            return Promotion(state=MergeState.BLOCKED, reason=why, action_id=action, approval_id=approval)
        try:
            said: object = self._merge(target, params)
            ok, detail = True, "" if said is None or said is True else _words(said)
        except Exception as error:  # noqa: BLE001 -- it is anybody's code, and its end has to be told all the same
            ok, detail = False, f"{type(error).__name__}: {_words(error)}"
        with self._lock:
            self._untold[action] = ok, detail
        return self._tell(action, approval, ok, detail)

    def _ended(self, action: str) -> tuple[bool, str] | None:
        with self._lock:
            return self._untold.get(action)

    def _tell(self, action: str, approval: str, ok: bool, detail: str) -> Promotion:
        made = MergeState.MERGED if ok else MergeState.FAILED
        try:
            self._actions.report(action, ok=ok, detail=detail, code=None if ok else "merge_failed")
        except FleetError as error:
            told = f"{detail or 'merged'}; the plane has not heard it: {error.message}".lstrip("; ")
            return Promotion(state=made, reason=told, action_id=action, approval_id=approval)
        with self._lock:
            self._untold.pop(action, None)
        return Promotion(state=made, reason=detail, action_id=action, approval_id=approval)


def _words(said: object) -> str:
    """What a merge said, as words that every plane takes: whatever it is, its end has to be told."""
    try:
        text = said if isinstance(said, str) else str(said)
    except Exception:  # noqa: BLE001 -- as above
        text = type(said).__name__
    return "\n".join(map(scrubbed, text[: 2 * DETAIL_MAX].splitlines()))[:DETAIL_MAX]


_OF: Mapping[str, MergeState] = {
    "waiting": MergeState.WAITING,
    "held": MergeState.WAITING,
    "running": MergeState.UNKNOWN,
    "recovery_pending": MergeState.UNKNOWN,
    "succeeded": MergeState.MERGED,
    "failed": MergeState.FAILED,
}
