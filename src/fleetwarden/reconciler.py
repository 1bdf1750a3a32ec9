"""The reconciler's public record: what one pass saw, asked for, and was told.  A thin name over the controller's."""

from fleetwarden.controllers.reconciler import ReconcileReport

__all__ = ["ReconcileReport"]
