"""The fences around people's and others' wishes, taken away one by one, as `planted` does it for the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fleetwarden.controllers import executor, foreign, reconciler, settlement
from tests.simulation.planted import Planted, ignore

if TYPE_CHECKING:
    from fleetwarden.ports.configuration import Configuration
    from fleetwarden.ports.stores import Tx
    from tests.simulation.history import History

__all__ = ["WISHES"]


def only_files(_: Tx, configuration: Configuration) -> Configuration:
    return configuration


class OnlyTheFilesCount(Planted):
    name = "overrides and held changes count for nothing"

    def into(self, history: History) -> None:
        for owner in (executor, reconciler):
            self.replace(owner, "as_asked", only_files)


class OursIsBlamedOnOthers(Planted):
    name = "what our own actions do counts as somebody else's doing"

    def into(self, history: History) -> None:
        self.replace(settlement, "remember_left", ignore)
        self.replace(foreign, "held_until", ignore)


WISHES: Sequence[Callable[[], Planted]] = (OnlyTheFilesCount, OursIsBlamedOnOthers)
