"""The promises about versions, quarantines and rollbacks, broken one by one, as `planted` does it for the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fleetwarden.controllers import (
    quarantining,
    settlement,
    watch_ending,
    watch_follow_up,
    watch_opening,
    wishes,
)
from fleetwarden.controllers.watch_follow_up import WatchFollowUp
from fleetwarden.controllers.worker import Step
from fleetwarden.domain.actions import ActionRequest, Kind
from fleetwarden.domain.deploy_watch import DeployWatch, OnFail
from fleetwarden.domain.rollback_target import Target
from tests.simulation.planted import Planted, ignore

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["VERSIONS"]


class OnVersions(Planted):
    """In every history services have versions, one of which does not live long."""

    tilt: ClassVar[Mapping[str, Any]] = {
        "deploys": True,
        "world": 0.2,
        "people": 0.0,
        "people_share": 0.0,
        "crash": 0.0,
        "stall": 0.0,
        "store_fault": 0.0,
        "trouble": 0.1,
        "rough_steps": 625,
    }


class NothingIsSetAside(OnVersions):
    name = "a version that failed its watch is not set aside"

    def into(self, history: History) -> None:
        self.replace(watch_ending, "quarantine", ignore)


class SetAsideIsStarted(OnVersions):
    name = "what was set aside is deployed again (proposal and gate)"

    def into(self, history: History) -> None:
        self.replace(quarantining.Marks, "of", lambda *_: {})
        self.replace(quarantining, "refused", lambda *_: "")


class BackToWhatRanBefore(OnVersions):
    name = "a rollback goes to what ran before, whether it was ever seen well or not"

    def into(self, history: History) -> None:
        def before(watch: DeployWatch, *_: Any, **__: Any) -> Target:
            return Target(version=watch.from_version.partition(",")[0], reason="it ran before")

        self.replace(watch_follow_up, "rollback_target", before)


class RolledBackIsDeployed(OnVersions):
    name = "what people rolled back from is deployed again at once"

    def into(self, history: History) -> None:
        self.replace(wishes, "why_not_again", lambda *_: "")


class RollbacksAreRolledBack(OnVersions):
    name = "a rollback that fails is rolled back"

    def into(self, history: History) -> None:
        on_fail = watch_opening._on_fail

        def always(request: ActionRequest, count: int | None) -> OnFail:
            return OnFail.ROLLBACK if request.kind == Kind.ROLLBACK else on_fail(request, count)

        self.replace(watch_opening, "_on_fail", always)


class NobodyGoesBack(OnVersions):
    name = "a failed watch leads to nothing"

    def into(self, history: History) -> None:
        self.replace(WatchFollowUp, "_roll_back", lambda *_: Step.done("it will do"))


class NotOnRecord(OnVersions):
    name = "what was rolled out is not put on record"

    def into(self, history: History) -> None:
        self.replace(settlement, "note_version", ignore)


VERSIONS: Sequence[Callable[[], Planted]] = (
    NothingIsSetAside,
    SetAsideIsStarted,
    BackToWhatRanBefore,
    RolledBackIsDeployed,
    RollbacksAreRolledBack,
    NobodyGoesBack,
    NotOnRecord,
)
