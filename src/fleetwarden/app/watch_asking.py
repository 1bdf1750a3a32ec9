"""A watch that code of a deployment asks for, after a change that it made itself.

It begins a watch as an action of the plane would; the plane's own pass carries it on, and its failure proposes through
the same gate.  It never looks, and never changes a service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetwarden.controllers.deploy_watch import CADENCE
from fleetwarden.controllers.watch_opening import GRACE_S, open_watch
from fleetwarden.domain import versions
from fleetwarden.domain.deploy_watch import DeployWatch, OnFail
from fleetwarden.domain.errors import Misconfigured, NotFound
from fleetwarden.domain.identifiers import SECOND
from fleetwarden.domain.watch_block import WatchBlock
from fleetwarden.ports.stores import Tx
from fleetwarden.ports.watches import WatchDraft

if TYPE_CHECKING:
    from fleetwarden.app.bootstrap import Plane

__all__ = ["run_deploy_watch", "watch_deploy"]

WINDOW_MAX_S = 86_400.0
POLL_MAX_S = 3_600.0


def watch_deploy(
    plane: Plane,
    service: str,
    version: str | None = None,
    window_s: float | None = None,
    *,
    poll_s: float | None = None,
    on_fail: str = "rollback",
    source: str = "api",
) -> DeployWatch:
    """Watch a service from now on; returns the watch as it begins.

    `version`: what was deployed, None for a watch that is of no change of version and so never proposes a rollback.
    `window_s` (1 to 86,400) and `poll_s` (1 to 3,600): None as the service's `watch:` or else the settings say.  The
    grace period is the service's own.  `on_fail`: `rollback` or `escalate`.
    `source`: who asks, for the record.  A watch that runs for the service is replaced, visibly.  Raises NotFound (no
    such service), Misconfigured, StoreUnavailable.
    """
    declared = plane.configuration.current().last_good_fleet.services.get(service)
    block = WatchBlock() if declared is None or declared.watch is None else declared.watch
    window = _first(window_s, block.window_s, plane.settings.deploy_watch_window)
    poll = _first(poll_s, block.poll_s, plane.settings.deploy_watch_poll)
    grace = _first(block.grace_s, GRACE_S)
    if not 1 <= window <= WINDOW_MAX_S or not 1 <= poll <= POLL_MAX_S:
        raise Misconfigured(
            f"a watch of {window} s that looks every {poll} s", hint="1 to 86,400 s, every 1 to 3,600 s"
        )
    if on_fail not in ("rollback", "escalate"):
        raise Misconfigured(f"on_fail {on_fail!r} is neither rollback nor escalate")
    if declared is None:
        raise NotFound(f"no service {service!r} in the registry")
    rolls_back = bool(version) and on_fail == "rollback"

    def run(tx: Tx) -> DeployWatch:
        before = tx.watches.running(service)
        now = tx.now()
        draft = WatchDraft(
            service=service,
            action_seq=None,
            kind="watch_deploy",
            source=source,
            version=version or "",
            definition=versions.definition(declared, version) if version else "",
            changes_version=bool(version),
            on_fail=OnFail.ROLLBACK if rolls_back else OnFail.ESCALATE,
            grace_until=now + int(min(grace, window / 2) * SECOND),
            deadline=now + int(window * SECOND),
            poll=int(poll * SECOND),
        )
        return open_watch(tx, draft, before)

    return plane.store.transact("watch_deploy", run)


def _first(*values: float | None) -> float:
    """The first of these that is said."""
    return next(one for one in values if one is not None)


def run_deploy_watch(plane: Plane) -> object:
    """Do the steps of watches that are due, by hand, where the plane's own threads do not run."""
    return plane.tick(CADENCE)
