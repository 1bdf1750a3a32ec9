"""What a freeze covers: everything, one group, one kind of action, or one service.

A scope that is not known covers everything: a freeze that a newer release wrote must never be read as none.
"""

from __future__ import annotations

__all__ = ["SCOPES", "covers", "covers_service", "words"]

SCOPES = ("all", "group", "kind", "service")


def covers(scope: str, value: str, *, kind: str, target: str, group: str) -> bool:
    """Whether a freeze of this scope holds an action of that kind on that target."""
    if scope == "kind":
        return value == kind
    return covers_service(scope, value, service=target, group=group)


def covers_service(scope: str, value: str, *, service: str, group: str) -> bool:
    """Whether it holds something of what could be done to that service (a freeze of a kind does)."""
    if scope == "group":
        return value == group
    if scope == "service":
        return value == service
    return True


def words(scope: str, value: str) -> str:
    """For a sentence: `the fleet`, `group web`, `deploy_service everywhere`, `service db`."""
    if scope == "kind":
        return f"{value} everywhere"
    return f"{scope} {value}" if scope in ("group", "service") else "the fleet"
