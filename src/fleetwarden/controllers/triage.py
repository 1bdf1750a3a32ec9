"""The step that follows an event.  For now no playbook is there: a line in the event says so, and that is all."""

from __future__ import annotations

from fleetwarden.controllers.worker import Handler, Step
from fleetwarden.domain.errors import NotFound
from fleetwarden.ports.events import TRIAGE
from fleetwarden.ports.stores import Store, Tx, WorkItem

__all__ = ["TRIAGE", "no_playbook"]

NO_PLAYBOOK = "no_playbook"


def no_playbook(store: Store) -> Handler:
    """A handler that writes into the event that nothing answers it yet."""

    def handle(item: WorkItem) -> Step:
        def run(tx: Tx) -> None:
            tx.events.append_log(
                int(item.payload["event"]), {"step": "triage", "outcome": NO_PLAYBOOK}, status=NO_PLAYBOOK
            )

        try:
            store.transact("triage", run)
        except NotFound:
            return Step.done("the event was pruned meanwhile")
        return Step.done("no playbook yet")

    return handle
