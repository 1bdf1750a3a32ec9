"""What the ledger says about the last real change of a service's count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetwarden.domain.identifiers import Micros

__all__ = ["Cooldowns"]


class Cooldowns(Protocol):
    """Reads only.  Whoever asks first lets missing rows be rebuilt from the outbox, in the same transaction."""

    def last_scales(self, services: Sequence[str]) -> Mapping[str, Micros]:
        """The newest time, by its value and not by row order, of a scale_service that was executed, ok and no dry run.

        One bounded query; services without one are left out.
        """
