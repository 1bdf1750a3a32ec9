"""The promises of watches, broken one by one, as `planted` does it for the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from fleetwarden.controllers import deploy_watch, settlement, watch_follow_up
from fleetwarden.domain import deploy_watch_verdict
from fleetwarden.domain.deploy_watch import DeployWatch, Sight, WatchStatus
from fleetwarden.domain.deploy_watch_verdict import Verdict
from fleetwarden.domain.identifiers import Micros
from fleetwarden.store.watches import StoredWatches
from tests.simulation.planted import Planted
from tests.simulation.planted_intents import OnLoad

if TYPE_CHECKING:
    from tests.simulation.history import History

__all__ = ["WATCHES"]


class DoneAndNotWatched(Planted):
    name = "what was done is not watched"

    def into(self, history: History) -> None:
        self.replace(settlement, "is_watched", lambda *_, **__: False)


class WindowBeginsAnew(Planted):
    name = "each step gives its watch a new window, as after every restart of a plane"

    def into(self, history: History) -> None:
        change = StoredWatches.change

        def anew(watches: StoredWatches, watch: DeployWatch) -> None:
            moved = watch.made and watch.status is WatchStatus.RUNNING
            change(watches, msgspec.structs.replace(watch, deadline=watch.deadline + 1_000_000) if moved else watch)

        self.replace(StoredWatches, "change", anew)


class WellBeforeItsTime(Planted):
    name = "one healthy look ends a watch as a success"

    def into(self, history: History) -> None:
        verdict = deploy_watch_verdict.verdict

        def soon(watch: DeployWatch, now: Micros, checks: Any = ()) -> Verdict | None:
            if watch.last is Sight.HEALTHY:
                return Verdict(status=WatchStatus.SUCCESS, reason="healthy")
            return verdict(watch, now, checks)

        self.replace(deploy_watch, "verdict", soon)


class UnseenIsWell(Planted):
    name = "a watch that saw nothing ends as a success"

    def into(self, history: History) -> None:
        verdict = deploy_watch_verdict.verdict

        def hopeful(watch: DeployWatch, now: Micros, checks: Any = ()) -> Verdict | None:
            told = verdict(watch, now, checks)
            if told is None or told.status is not WatchStatus.UNOBSERVED:
                return told
            return Verdict(status=WatchStatus.SUCCESS, reason=told.reason)

        self.replace(deploy_watch, "verdict", hopeful)


class BackToAnotherCount(OnLoad):
    name = "a failed watch goes back to one more than the count from before"
    tilt: ClassVar[Mapping[str, Any]] = {**OnLoad.tilt, "world": 0.25, "rough_steps": 400}
    change: ClassVar[Mapping[str, Any]] = {"cooldown_up_s": 0.0, "cooldown_down_s": 0.0}

    def weaken(self, history: History) -> None:
        step = watch_follow_up.WatchFollowUp._scale_back

        def more(follow_up: Any, watch: DeployWatch, *rest: Any) -> object:
            count = watch.from_replicas
            return step(follow_up, watch if count is None else _from(watch, count + 1), *rest)

        self.replace(watch_follow_up.WatchFollowUp, "_scale_back", more)


def _from(watch: DeployWatch, count: int) -> DeployWatch:
    return msgspec.structs.replace(watch, from_replicas=count)


WATCHES: Sequence[Callable[[], Planted]] = (
    DoneAndNotWatched,
    WindowBeginsAnew,
    WellBeforeItsTime,
    UnseenIsWell,
    BackToAnotherCount,
)
