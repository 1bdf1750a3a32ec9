"""What a plane has only because others may share its store: hosts, placements, heartbeats, wake-ups.

On SQLite none of it exists: that file belongs to one process.  Nothing here decides anything; it says what is put
together, which host this plane answers for, and what people should know of the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from fleetwarden.app.settings import Settings
from fleetwarden.controllers.heartbeat import Heartbeat
from fleetwarden.controllers.placement import PlacedConfiguration
from fleetwarden.controllers.publishing import CADENCE as HOST_OBSERVER
from fleetwarden.controllers.publishing import Publisher
from fleetwarden.controllers.reactive import NEWS
from fleetwarden.controllers.reconciler import CADENCE as RECONCILER
from fleetwarden.controllers.sightings import Look, Sightings
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.identifiers import SECOND, rfc3339
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.planes import Bell
from fleetwarden.ports.stores import Store
from fleetwarden.ports.system import Clock
from fleetwarden.store.opening import open_bell

__all__ = ["LOOK_EVERY_S", "Neighbours", "folder_id", "neighbours_of"]

FOLDER_FILE = "host.id"
LOOK_EVERY_S = 10.0  # a host is looked at as often as the reconciler does, and at least this often


class Neighbours:
    """A plane's side of a shared store.  `host`, `holder`: this plane's; `by_hand`: no threads of its own."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        store: Store,
        configuration: ConfigurationSource,
        wakes: Wakes,
        *,
        holder: str,
        by_hand: bool,
    ) -> None:
        self.host = settings.fleet_host
        self.configuration = PlacedConfiguration(configuration, store, host=self.host)
        self.configuration.learn()
        self.interval_s = min(settings.fleet_reconciler_interval, LOOK_EVERY_S)
        self.heartbeat = None if by_hand else Heartbeat(store, wakes, holder=holder, ttl_s=settings.fleet_lease_ttl_s)
        self._settings = settings
        self._store = store
        self._wakes = wakes
        self._holder = holder
        self._bell: Bell | None = None if by_hand else open_bell(settings.store_address, clock, plane=holder)

    def register(self, fresh_id: str) -> None:
        """Answer for this host from this data folder.  Raises Misconfigured if another folder does.

        Two planes of one host that keep its processes in different folders would each start what the other runs.
        """
        mine = folder_id(self._settings.fleet_data_dir, fresh_id)
        known = self._store.transact("host", lambda tx: tx.hosts.register(self.host, mine, self._holder))
        if known.folder != mine:
            raise Misconfigured(
                f"host {self.host} is looked after from another data folder than {self._settings.fleet_data_dir}: "
                "two planes with a folder each would start everything twice",
                hint="give this plane that folder (FLEET_DATA_DIR), or another host name (FLEET_HOST); where that "
                "folder is lost for good, the host gets a new name, and `host:` in fleet.yml moves its services there",
            )

    def publisher(self, sightings: Sightings, looked: Callable[[Sequence[Service], Look], None]) -> Publisher:
        """What looks at this host and publishes it."""
        return Publisher(
            self._store, self.configuration, sightings, self._wakes, looked, host=self.host, holder=self._holder
        )

    def start(self, controllers: Sequence[str]) -> None:
        """Ring and listen for these controllers."""
        along = {RECONCILER: (HOST_OBSERVER,)}  # who judges after an action needs a look that began after it
        self._wakes.connect(None if self._bell is None else self._bell.ring, along, [*controllers, NEWS])
        if self._bell is not None:
            self._bell.start(self._wakes.heard)

    def close(self) -> None:
        if self._bell is not None:
            self._bell.close()

    def warnings(self, max_age_s: float) -> list[str]:
        """Hosts with services whose planes have not been heard of for `max_age_s`.  Raises StoreUnavailable."""
        now, hosts = self._store.read(lambda tx: (tx.now(), {one.host: one for one in tx.hosts.all()}))
        services = self.configuration.current().last_good_fleet.services.values()
        used = {one.process.host for one in services if one.process is not None} - {"", self.host}
        told = []
        for host in sorted(used):
            looked_at = None if host not in hosts else hosts[host].looked_at
            if looked_at is None:
                told.append(f"no plane of host {host} was ever heard of: its services are unobserved")
            elif now - looked_at > int(max_age_s * SECOND):
                told.append(
                    f"host {host} has not been heard of since {rfc3339(looked_at)}: its services are unobserved and "
                    "nothing is done about them"
                )
        return told


def neighbours_of(
    settings: Settings,
    clock: Clock,
    store: Store,
    configuration: ConfigurationSource,
    wakes: Wakes,
    *,
    holder: str,
    by_hand: bool,
) -> Neighbours | None:
    """The neighbours' side of this store, or None where one process owns it."""
    if store.health().dialect != "postgresql":
        return None
    return Neighbours(settings, clock, store, configuration, wakes, holder=holder, by_hand=by_hand)


def folder_id(folder: Path, fresh: str) -> str:
    """The id that lies in a data folder; `fresh` is laid there if none does.  Raises Misconfigured."""
    file = folder / FOLDER_FILE
    own = file.with_name(f"{file.name}.{fresh}.new")
    try:
        own.write_text(f"{fresh}\n", encoding="ascii")
        try:
            os.link(own, file)  # whole or not at all, and only if there is none
        except FileExistsError:
            pass
        finally:
            own.unlink(missing_ok=True)
        found = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file} cannot be used: {error}", hint="FLEET_DATA_DIR names another folder") from error
    if not found:
        raise Misconfigured(f"{file} is empty", hint="take it from a backup, or give the host a new name (FLEET_HOST)")
    return found
