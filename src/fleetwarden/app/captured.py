"""What was seen of a target before an action, as people and programs read it."""

from __future__ import annotations

from fleetwarden.app.views import Item
from fleetwarden.domain.identifiers import rfc3339
from fleetwarden.ports.evidence import StoredCapture

__all__ = ["capture_view"]


def capture_view(one: StoredCapture) -> Item:
    """`{at, digest, instances: [{id, status, pid, version, started_at, ended, lines, cut}], problem?}`."""
    instances = [
        {**each, "started_at": rfc3339(each.get("started_at"))}
        for each in one.body.get("instances", ())
        if isinstance(each, dict)
    ]
    return {"at": rfc3339(one.at), "digest": one.digest, **one.body, "instances": instances}
