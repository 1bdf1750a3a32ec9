"""Which requests stand for a scale intent: what follows load, and what a failed watch of it takes back.

They are carried out, granted and checked by way of their intent and never by themselves.
"""

from __future__ import annotations

from fleetwarden.domain.actions import ActionRequest, Kind, Source

__all__ = ["stands_for_intent"]


def stands_for_intent(request: ActionRequest) -> bool:
    """Whether an intent stands behind this request."""
    source = request.source
    return source == Source.AUTOSCALER or (source == Source.DEPLOY_WATCH and request.kind == Kind.SCALE)
