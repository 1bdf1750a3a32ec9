"""Several planes over one store: where a service belongs, who answers for a host, and what was last seen there.

A service of local processes belongs to one host, and only a plane of that host looks at it and acts on it.  What such a
plane sees it publishes, dated with the store's time at which its look began, so that whoever leads can judge it; what
is too old is no evidence, and silence is never read as down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from fleetwarden.domain.actions import Record
from fleetwarden.domain.fleet import ObservedService
from fleetwarden.domain.identifiers import Micros

__all__ = ["Bell", "Host", "Hosts", "Placements"]


class Placements(Protocol):
    """Which host a service without a declared one belongs to: the host of the plane that first started it."""

    def claim(self, service: str, host: str) -> str:
        """Give the service to `host` if nobody has it; returns whose it is."""

    def all(self) -> Mapping[str, str]:
        """Host by service."""


class Host(Record):
    """A host of this fleet.  `folder`: the id of the data folder that its processes are kept in; `looked_at`: when the
    latest published look at it began (store time), None before the first."""

    host: str
    folder: str
    holder: str
    looked_at: Micros | None = None


class Hosts(Protocol):
    """Hosts, and what their planes last saw on them."""

    def register(self, host: str, folder: str, holder: str) -> Host:
        """Make the host known; one that is known stays as it is.  Returns what is there: compare its folder."""

    def publish(self, host: str, holder: str, looked_at: Micros, seen: Mapping[str, ObservedService]) -> bool | None:
        """Replace what was seen on this host by a look that began at `looked_at`.

        What is not among `seen` is unobserved from then on.  Returns whether anything but dates is new, and None, with
        nothing changed, if a look that began later is there already.  Raises NotFound (a host that is not registered).
        """

    def seen(self, *, besides: str) -> Mapping[tuple[str, str], ObservedService]:
        """What was last seen on every other host, by host and service, each as old as it is."""

    def all(self) -> Sequence[Host]:
        """By name."""


class Bell(Protocol):
    """Wake-ups between planes: a name, never a message.  One that is lost costs time up to the next poll."""

    def ring(self, name: str) -> None:
        """Wake that controller in every other plane, soon.  Never waits, never raises."""

    def start(self, heard: Callable[[str], None]) -> None:
        """Begin to listen: `heard(name)` for what others ring, and `heard("")` when some may have been missed."""

    def close(self) -> None:
        """Stop listening and ringing."""
