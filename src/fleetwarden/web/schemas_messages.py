"""Shapes of messages to people, and of who is told what.  No address of a target is ever part of one."""

from __future__ import annotations

from pydantic import BaseModel

from fleetwarden.domain.messages import DeliveryState
from fleetwarden.web.schemas import Time

__all__ = ["Notify", "Sent", "SentLine", "TestSent"]


class SentLine(BaseModel):
    at: Time
    summary: str
    count: int


class Sent(BaseModel):
    """One message for one target.  `notices`: how many are in it; `next_at`: when it is sent at the earliest."""

    id: str
    at: Time
    target: str
    kind: str
    subject: str | None
    severity: str
    state: DeliveryState
    notices: int
    attempts: int
    next_at: Time | None
    ended_at: Time | None
    error: str | None
    lines: list[SentLine]


class NotifyRoute(BaseModel):
    group: str | None
    severity: list[str]
    to: list[str]


class MessageCount(BaseModel):
    target: str
    state: DeliveryState
    count: int
    oldest_at: Time


class Notify(BaseModel):
    """Who is told what.  `problems`: of a newer file that is not in force; `stays`: what holds meanwhile."""

    targets: list[str]
    routes: list[NotifyRoute]
    problems: list[str]
    stays: str | None
    messages: list[MessageCount]


class TestSent(BaseModel):
    """What became of a test message; `error` without what looks like a secret."""

    target: str
    delivered: bool
    error: str | None
