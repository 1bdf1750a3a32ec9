"""The store of a plane that does not run, and what a plane and such a store have in common.

Commands work on it where a running plane need not be asked.  It looks at nothing and acts on nothing.
"""

from __future__ import annotations

from fleetwarden.adapters.files.checkpoints import CheckpointFile
from fleetwarden.adapters.files.folder import ConfigurationFolder
from fleetwarden.adapters.system import SystemClock
from fleetwarden.app.administration import Administration
from fleetwarden.app.ledger_export import LedgerExport
from fleetwarden.app.listing import Lists
from fleetwarden.app.settings import Settings
from fleetwarden.app.storage import EpochOperations, open_migrated
from fleetwarden.controllers.recovery import Recovery
from fleetwarden.controllers.sightings import Sightings
from fleetwarden.controllers.wakes import Wakes
from fleetwarden.ports.system import Clock

__all__ = ["Offline", "configuration_of", "evidence_age_s"]


def evidence_age_s(settings: Settings) -> float:
    """How old evidence may be: two intervals of the reconciler, and never less than a slow probe needs."""
    return max(2.0 * settings.fleet_reconciler_interval, 10.0)


def configuration_of(settings: Settings, clock: Clock) -> ConfigurationFolder:
    """The configuration folder that these settings name."""
    return ConfigurationFolder(
        clock,
        registry=settings.fleet_registry_path,
        override=settings.fleet_desired_state_path,
        policy=settings.action_policy_path,
        folder=settings.config_dir,
        freeze_folders=(settings.config_dir, settings.fleet_data_dir),
    )


class Offline:
    """The store of a plane that does not run, for commands that may open it themselves."""

    def __init__(self, settings: Settings) -> None:
        clock = SystemClock()
        self.store = open_migrated(settings, clock)
        self.epochs = EpochOperations(self.store)
        configuration = configuration_of(settings, clock)
        sightings = Sightings(self.store, [], max_age_s=evidence_age_s(settings))
        recovery = Recovery(
            self.store, configuration, sightings, Wakes(), frozenset, watch_window_s=settings.deploy_watch_window
        )
        self.lists = Lists(self.store)
        self.ledger = LedgerExport(self.store, CheckpointFile(settings.fleet_data_dir))
        self.administration = Administration(
            self.store, recovery, configuration.freeze_file, lambda: configuration.current().fleet
        )

    def close(self) -> None:
        self.store.close()
