"""What would end the wait of a need that is not asked for yet, in words for people.

It decides nothing: whether a need waits is the restraint's to say.
"""

from __future__ import annotations

from fleetwarden.controllers.restraint import Held
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.identifiers import rfc3339

__all__ = ["released_by"]


def released_by(held: Held, service: Service) -> list[str]:
    """What would end the wait, each a condition in words that end in a time or a command where there is one."""
    if held.code == "waits_for":
        return [f"what it depends on is ready (fleetwarden explain {name})" for name in service.depends_on]
    told = [] if held.until is None else [f"the time is after {rfc3339(held.until)}"]
    return [
        *told,
        f"{service.name} is declared differently (now: {service.source})",
        f"a person proposes it (fleetwarden action propose {held.kind} {service.name} --reason …)",
    ]
