"""The bench with watches: a service with versions that a test starts, deploys, breaks and looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleetwarden.domain.actions import Kind
from fleetwarden.domain.deploy_watch import DeployWatch, Quarantine
from fleetwarden.domain.fleet import Service
from fleetwarden.ports.stores import Page
from fleetwarden.testing import a_fleet, a_service
from tests.contract.pipeline.conftest import Bench

__all__ = ["Watched"]


class Watched:
    """`app`, two replicas, and the watches of whatever is done to it.  Time goes on where a test says so."""

    def __init__(self, bench: Bench, version: str = "1.0", **fields: Any) -> None:
        self.bench = bench
        self.fields = {"replicas": 2, **fields}
        self.declare(version)

    def declare(self, version: str, **fields: Any) -> Service:
        self.fields |= fields
        service = a_service("app", version=version, **self.fields)
        self.bench.files.declare(fleet=a_fleet(service))
        return service

    def pass_by(self, times: int = 3) -> None:
        """Passes of reconciler and executor, without the watches."""
        for _ in range(times):
            self.bench.look()
            self.bench.worker.run()
            self.bench.act()

    def poll(self, seconds: float = 15.001) -> int:
        """Time goes on, and due steps are done."""
        self.bench.clock.advance(seconds)  # a hair more than the pace: commits take microseconds, too
        return self.bench.watch()

    def run_out(self) -> None:
        """To the end of the window, look by look."""
        for _ in range(21):
            self.poll()

    def verified(self, version: str = "1.0") -> None:
        """That version was rolled out, watched and found healthy."""
        self.declare(version)
        self.pass_by()
        self.bench.watch()
        self.run_out()

    def breaks(self) -> None:
        """What runs goes down."""
        for index in self.bench.substrate.instances("app"):
            self.bench.substrate.sicken("app", index)

    def watches(self) -> Sequence[DeployWatch]:
        """Newest first."""
        return self.bench.store.read(lambda tx: tx.watches.list(Page(limit=500)))

    def newest(self) -> DeployWatch:
        return self.watches()[0]

    def quarantines(self) -> Sequence[Quarantine]:
        return self.bench.store.read(lambda tx: tx.quarantines.standing())

    def standing(self) -> str:
        return self.bench.reconciler.standings()["app"].code

    def rollbacks(self) -> int:
        return sum(one.request.kind == Kind.ROLLBACK for one in self.bench.decisions())

    def versions(self) -> set[str]:
        return set(self.bench.substrate.versions("app").values())
