"""The watch that follows a restart, deploy or rollback: a row with a deadline.

For now nothing looks: at its deadline the watch ends as `unobserved`, which says honestly that nobody saw whether the
service stayed well.  It never proposes anything.
"""

from __future__ import annotations

from fleetwarden.controllers.worker import Step
from fleetwarden.ports.stores import WorkItem

__all__ = ["WORK_KIND", "end_watch"]

WORK_KIND = "deploy_watch"


def end_watch(item: WorkItem) -> Step:
    """The step at the deadline."""
    return Step.done("unobserved: no probes are made yet", status="unobserved", service=item.target)
