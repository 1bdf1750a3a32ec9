"""A whole plane behind the HTTP application, in one process: real operations, controllers and store; a fake world."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from httpx2 import Response
from starlette.testclient import TestClient

from fleetwarden.app.bootstrap import Plane
from fleetwarden.app.identity import Role, local_admin
from fleetwarden.app.settings import load_settings
from fleetwarden.domain.actions import Tier
from fleetwarden.domain.errors import StoreUnavailable
from fleetwarden.domain.fleet import Service
from fleetwarden.ports.stores import Store, StoreHealth, Tx
from fleetwarden.store.opening import open_store
from fleetwarden.testing import (
    FakeClock,
    FakeConfiguration,
    FakeIds,
    FakeSubstrate,
    a_configuration,
    a_fleet,
    a_policy,
    a_service,
)
from fleetwarden.web.application import create_app

API = "/api/fleet"
ORIGIN = "http://127.0.0.1:8800"
T = TypeVar("T")


class PatientClock(FakeClock):
    """A clock that a test moves, and that gives a call on another thread the moment that it really takes."""

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return event.wait(5) or super().wait(event, timeout_s)


class BreakableStore:
    """A real store that stops answering when told to: at once, or after so many more transactions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left: int | None = None

    def breaks_after(self, transactions: int | None) -> None:
        """`None` mends it."""
        self._left = transactions

    def _count(self) -> None:
        if self._left is None:
            return
        if self._left == 0:
            raise StoreUnavailable("the database does not answer")
        self._left -= 1

    def transact(self, name: str, fn: Callable[[Tx], T]) -> T:
        self._count()
        return self._store.transact(name, fn)

    def read(self, fn: Callable[[Tx], T]) -> T:
        self._count()
        return self._store.read(fn)

    def health(self) -> StoreHealth:
        return self._store.health()

    def close(self) -> None:
        self._store.close()

    def __getattr__(self, name: str) -> Any:  # what a kind of store has beyond the port
        return getattr(self._store, name)


class World:
    """The plane, its clock, its substrate and its files, and a client for each role."""

    def __init__(self, folder: Path, *services: Service, tier: Tier = Tier.APPROVAL_REQUIRED, **app: Any) -> None:
        self.clock = PatientClock()
        self.substrate = FakeSubstrate(self.clock)
        fleet = a_fleet(*(services or (a_service("web", replicas=2),)))
        self.configuration = FakeConfiguration(a_configuration(fleet, a_policy(tier)))
        self.store = BreakableStore(open_store(f"sqlite:///{folder / 'fleet.db'}", self.clock))
        (folder / "fleet.yml").write_text("version: 1\nservices: []\n")
        environ = {"FLEET_DATA_DIR": str(folder), "FLEET_RECONCILER": "true", "FLEET_RECONCILER_INTERVAL": "60"}
        environ["FLEET_STORM_MIN"] = "100"  # a world of five services with much amiss, on purpose
        self.plane = Plane(
            load_settings(folder, environ),
            actuators={"": self.substrate},
            observers=[self.substrate],
            configuration=self.configuration,
            store=self.store,
            clock=self.clock,
            ids=FakeIds(),
        )
        self.ended = threading.Event()
        self.app = create_app(self.plane, on_shutdown=self.ended.set, **app)
        self.secrets = {role: self.token(role.value, role) for role in Role}
        self.bare = TestClient(self.app, base_url=ORIGIN, follow_redirects=False)

    def token(
        self, name: str, *roles: str, person: str = "", for_s: float | None = None, teams: tuple[str, ...] = ()
    ) -> str:
        """The secret of a new token; its person is `<name>-person` unless given."""
        made = self.plane.administration.create_token(
            local_admin(), name=name, roles=tuple(roles), person=person or f"{name}-person", for_s=for_s, teams=teams
        )
        return str(made["secret"])

    def client(self, role: Role = Role.ADMIN) -> TestClient:
        """A client with the token of that role; paths are below the API's prefix."""
        return self.client_of(self.secrets[role])

    def client_of(self, secret: str) -> TestClient:
        """A client with that token; none if it is empty."""
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        return TestClient(self.app, base_url=f"{ORIGIN}{API}", headers=headers, follow_redirects=False)

    def browser(self, role: Role = Role.ADMIN) -> Browser:
        """Somebody who has signed in to the page."""
        made = Browser(self)
        made.sign_in(self.secrets[role])
        return made

    def browser_of(self, secret: str) -> Browser:
        """Whoever has that token, signed in to the page."""
        made = Browser(self)
        made.sign_in(secret)
        return made

    def look(self) -> None:
        """One pass of the reconciler, and of whatever it led to."""
        self.plane.tick("fleet_reconciler")
        self.work()

    def work(self) -> None:
        """One pass of worker and executor, and every call that they began."""
        self.plane.tick("worker")
        self.plane.tick("action_executor")
        waited = threading.Event()
        for _ in range(2000):
            if not self.plane.executor.executing():
                return
            waited.wait(0.005)
        raise AssertionError("a call does not end")

    def ask_for_restart(self) -> str:
        """Have the reconciler ask a person about a dead replica of `web`; returns the approval's job id."""
        self.substrate.boot("web", 2)
        self.look()
        self.substrate.crash("web", 0)
        self.clock.advance(60)
        self.look()
        [waiting] = self.client().get("/approvals", params={"status": "pending"}).json()["items"]
        return str(waiting["job_id"])

    def called(self) -> list[str]:
        """What the substrate was really asked to do."""
        return [f"{one.kind} {one.target}" for one in self.substrate.log if one.what == "called"]

    def close(self) -> None:
        self.store.breaks_after(None)
        self.plane.stop(timeout_s=5)


class Browser:
    """A person at the page: keeps cookies, fills in forms, follows the redirect after one."""

    def __init__(self, world: World) -> None:
        self.http = TestClient(world.app, base_url=ORIGIN, follow_redirects=False)

    def sign_in(self, secret: str) -> Response:
        return self.http.post("/login", data={"token": secret})

    def page(self, query: str = "") -> str:
        """The page's HTML."""
        shown = self.http.get(f"/{query}")
        assert shown.status_code == 200, shown.text
        return shown.text

    def form_secret(self) -> str:
        found = re.search(r'name="form_secret" value="([^"]+)"', self.page())
        assert found is not None
        return found[1]

    def send(self, address: str, *, headers: Mapping[str, str] = MappingProxyType({}), **fields: str) -> Response:
        """Send one of the page's forms with its secret."""
        data = {"form_secret": self.form_secret(), **fields}
        return self.http.post(address, data=data, headers=dict(headers))

    def message(self) -> str:
        """What the page says that the last form led to; empty if nothing."""
        found = re.search(r'<p class="message \w+" role="status">(.*?)</p>', self.page(), re.DOTALL)
        return found[1] if found else ""
