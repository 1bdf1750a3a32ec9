"""Promotions that ask first: a pipeline's own merge, governed by policy, approvals and freezes.

Thin names over the layers.
"""

from fleetwarden.adapters.actions_client import ActionsOverHttp
from fleetwarden.app.promotion import Actions, GovernedAutoMerger, MergeState, PlaneActions, Promotion

__all__ = ["Actions", "ActionsOverHttp", "GovernedAutoMerger", "MergeState", "PlaneActions", "Promotion"]
