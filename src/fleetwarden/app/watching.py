"""Putting the watches together: who looks at a service after something was done to it.  Nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.app.parts import Parts
from fleetwarden.controllers import deploy_watch
from fleetwarden.controllers.worker import Handler

__all__ = ["Watching"]


class Watching:
    """The watches of one plane."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def handlers(self) -> Mapping[str, Handler]:
        """Who does a step, by the kind of work."""
        return {deploy_watch.WORK_KIND: deploy_watch.end_watch}
