"""A failure that comes back: after the third in a row somebody is asked to find out why, once.

It only proposes.  A grant of such a proposal means that a person took it up; nothing is ever carried out for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetwarden.controllers.escalating import escalate_to_people
from fleetwarden.controllers.texts import KeptTexts
from fleetwarden.domain.actions import ActionRequest, Evidence, Kind, Source
from fleetwarden.domain.events import StoredEvent
from fleetwarden.domain.identifiers import JsonValue
from fleetwarden.ports.configuration import Configuration
from fleetwarden.ports.stores import Tx

__all__ = ["file_gap"]


def file_gap(
    tx: Tx,
    configuration: Configuration,
    texts: KeptTexts,
    freeze_file: str,
    event: StoredEvent,
    outages: Sequence[StoredEvent],
) -> str:
    """Ask somebody to look into a service that keeps failing; returns the approval that stands for it, or "".

    `outages`: the failures in a row, newest first.  Part of the caller's transaction.
    """
    service = event.event.service or ""
    names: list[JsonValue] = [one.id for one in outages]
    reason = f"{service} failed {len(outages)} times in a row ({', '.join(map(str, names))}): find out why"
    request = ActionRequest(
        kind=Kind.FAILURE_GAP,
        target=service,
        source=Source.PLAYBOOK,
        requested_by="triage",
        reason=reason,
        key=f"failure_gap:{event.id}",
        evidence=Evidence(reason=reason, facts={"events": names}),
    )
    return escalate_to_people(tx, configuration, texts, freeze_file, request, reason).approval
