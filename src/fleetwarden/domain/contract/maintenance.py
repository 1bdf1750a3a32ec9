"""A unit's maintenance window, evaluated exactly as those of policies are."""

from __future__ import annotations

from functools import lru_cache

from fleetwarden.domain.contract.records import UnitMaintenance
from fleetwarden.domain.located import Findings, located
from fleetwarden.domain.window_file import read_window
from fleetwarden.domain.windows import MaintenanceWindow

__all__ = ["window_of"]


@lru_cache(maxsize=1024)
def window_of(maintenance: UnitMaintenance) -> MaintenanceWindow:
    """The window that a record describes.  Raises ValueError, naming the field, if it describes none."""
    plain: dict[str, object] = {"hours": maintenance.hours, "zone": maintenance.zone}
    if maintenance.days:
        plain["days"] = list(maintenance.days)
    if maintenance.except_dates:
        plain["except"] = list(maintenance.except_dates)
    found = Findings()
    window = read_window(located(plain, "maintenance"), found)
    if window is None:
        raise ValueError(f"maintenance: {found.problems[0].reason}")
    return window
