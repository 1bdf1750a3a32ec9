"""The shape of the answer to a proposal, for the OpenAPI document."""

from __future__ import annotations

from pydantic import BaseModel

from fleetwarden.domain.actions import Verdict
from fleetwarden.domain.outside import OutsideState
from fleetwarden.web.schemas import Approval

__all__ = ["Proposed"]


class Proposed(BaseModel):
    """What became of a proposal.  `held` says what will make it stand once it has begun; `state` is of an action that
    the caller carries out."""

    decision: Verdict
    decision_id: str
    approval_id: str | None
    action_id: str | None
    state: OutsideState | None = None
    reason: str
    requested_by: str
    dry_run: bool
    break_glass: bool
    held: str | None
    approval: Approval | None
