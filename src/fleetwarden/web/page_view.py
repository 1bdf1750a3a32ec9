"""What the page shows, read from the operations of `app` and put into words; the template only lays it out.

Every part is read for the caller, so that roles hold here as everywhere.  If one part cannot be read the whole page
says so: an empty list must mean that there is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fleetwarden.app.identity import Caller, Role
from fleetwarden.ports.stores import Page
from fleetwarden.web import words
from fleetwarden.web.plane import ServedPlane

__all__ = ["FleetPage", "read_page"]

APPROVALS_SHOWN = 50
ACTIONS_SHOWN = 15
REFRESH_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRow:
    """One line of the fleet table."""

    name: str
    tone: str
    state: str
    ready: str
    version: str
    writer: str
    last_action: str
    why: str
    load: list[str]  # of a service whose count follows it: a sentence a signal
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalCard:
    """One request that waits for a person."""

    job_id: str
    short_id: str
    what: str
    facts: list[str]
    why: str
    seen: str
    needs_person: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow:
    """One thing that was done, tried, or is about to be."""

    id: str
    at: str
    age: str
    what: str
    outcome: str
    tone: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownRow:
    """One action whose outcome nobody knows."""

    id: str
    what: str
    since: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPage:
    """Everything that one look at the page shows."""

    person: str
    at: str
    clock: str
    version: str
    policy: str
    facts: list[str]
    warnings: list[str]
    frozen: bool
    frozen_by_file: bool
    liftable: bool
    freezes: list[str]
    in_flight: list[str]
    services: list[ServiceRow]
    approvals: list[ApprovalCard]
    more_approvals: bool
    unknown: list[UnknownRow]
    actions: list[ActionRow] = field(default_factory=list)
    may_answer: bool
    may_freeze: bool
    still: bool
    refresh_s: int = REFRESH_S


def read_page(plane: ServedPlane, caller: Caller, *, still: bool | None) -> FleetPage:
    """Read everything.  `still`: whether the page holds still; None: it does while forms with text wait for this
    person.  Raises Forbidden, StoreUnavailable."""
    status = plane.fleet.status(caller)
    frozen = plane.administration.freeze_status(caller)
    unknown = plane.administration.unknown(caller)
    waiting = plane.lists.page(caller, "approvals", Page(state="pending", limit=APPROVALS_SHOWN))
    done = plane.lists.page(caller, "actions", Page(limit=ACTIONS_SHOWN))
    now = status["at"]
    may_answer, may_freeze = caller.may_somewhere(Role.APPROVER), caller.may(Role.OPERATOR)
    return FleetPage(
        person=caller.person,
        at=now,
        clock=words.clock_time(now, now),
        version=status["version"],
        policy=f"{status['policy']['source']}, {status['policy']['rules']} rules",
        facts=words.status_facts(status),
        warnings=[words.localised(one, now) for one in _warnings(status)],
        frozen=frozen["frozen"],
        frozen_by_file=frozen["freeze_file"] is not None,
        liftable=any(one["scope"] == "all" for one in frozen["freezes"]),
        freezes=_freezes(frozen, now),
        in_flight=[f"{words.asked(one)} ({one['id']})" for one in frozen["in_flight_actions"]],
        services=[_service(one) for one in status["services"]],
        approvals=[_approval(one, now) for one in waiting["items"]],
        more_approvals=waiting["next"] is not None,
        unknown=[_unknown(one, now) for one in unknown["items"]],
        actions=[_action(one, now) for one in done["items"]],
        may_answer=may_answer,
        may_freeze=may_freeze,
        still=(may_answer and bool(waiting["items"])) if still is None else still,
    )


def _warnings(status: words.Item) -> list[str]:
    scaling = [one["scaling_warning"] for one in status["services"] if one.get("scaling_warning")]
    notes = [note for one in status["services"] for note in one["notes"]]
    return [*status["warnings"], *notes, *scaling]


def _freezes(frozen: words.Item, now: str) -> list[str]:
    told = [words.freeze_in_words(one, now) for one in frozen["freezes"]]
    if frozen["freeze_file"]:
        told.append(f"frozen by the file {frozen['freeze_file']}, until it is removed")
    return told


def _service(one: words.Item) -> ServiceRow:
    observed: Any = one["observed"] or {}
    state = words.service_state(one)
    return ServiceRow(
        name=one["name"],
        tone={"up": "good", "down": "bad"}.get(state, "quiet" if state.startswith("stopped") else "warn"),
        state=state,
        ready=words.ready(one),
        version=observed.get("version") or one["desired"]["version"] or "–",
        writer=one["controller_mode"],
        last_action=words.last_action(one),
        why=words.localised(one["reason"], one["at"]),
        load=[words.load_in_words(signal) for signal in (one["scaling"] or {}).get("signals", ())],
        mode="" if one["acts"] else "only looked at" if one["mode"] == "observe" else "dry run",
    )


def _approval(one: words.Item, now: str) -> ApprovalCard:
    return ApprovalCard(
        job_id=one["job_id"],
        short_id=one["short_id"],
        what=words.asked(one),
        facts=words.approval_facts(one, now),
        why=words.localised(one["request_reason"], now),
        needs_person=words.localised(one["reason"], now),
        seen=words.localised(words.seen_in_words(one["evidence"]), now),
    )


def _unknown(one: words.Item, now: str) -> UnknownRow:
    return UnknownRow(
        id=one["id"],
        what=words.asked(one),
        since=words.ago(one["started_at"] or one["at"], now),
        detail=words.localised(one["detail"] or one["note"], now),
    )


def _action(one: words.Item, now: str) -> ActionRow:
    when = one["finished_at"] or one["started_at"] or one["at"]
    return ActionRow(
        id=one["id"],
        at=words.clock_time(when, now),
        age=words.ago(when, now),
        what=words.asked(one),
        outcome=words.outcome_in_words(one),
        tone={"succeeded": "good", "failed": "bad", "recovery_pending": "warn"}.get(one["state"], "quiet"),
        detail=words.localised(one["detail"] or one["note"], now),
    )
