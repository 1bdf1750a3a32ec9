"""What a plane says of itself, from its settings and what was built.  Nothing is decided here."""

from __future__ import annotations

from collections.abc import Sequence

import fleetwarden
from fleetwarden.app.fleet_views import PlaneFacts
from fleetwarden.app.offline import evidence_age_s
from fleetwarden.app.settings import Settings

__all__ = ["plane_facts"]


def plane_facts(
    settings: Settings, dialect: str, *, acting: frozenset[str], fallbacks: Sequence[str], host: str
) -> PlaneFacts:
    """`dialect`: the store's; `fallbacks`: what could not be built; `host`: this plane's name among several, or ""."""
    return PlaneFacts(
        version=fleetwarden.__version__,
        store=dialect,
        acting=acting,
        fallbacks=(*fallbacks, *map(str, settings.warnings)),
        reconciler_on=settings.fleet_reconciler,
        evidence_age_s=evidence_age_s(settings),
        config_dir=str(settings.config_dir),
        data_dir=str(settings.fleet_data_dir),
        host=host,
    )
