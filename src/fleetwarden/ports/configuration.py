"""Reading what people declared: the registry and the policy.

A source hands out complete, validated snapshots.  It never hands out half a file: an unreadable one is an error in the
snapshot, and the last good policy stays in force beside it.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from fleetwarden.domain.errors import Problem
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.identifiers import Micros
from fleetwarden.domain.policy import Policy

__all__ = ["Configuration", "ConfigurationSource", "SourceText"]


class SourceText(msgspec.Struct, frozen=True, kw_only=True):
    """A text that what is in force was read from, byte for byte.  `kind`: policy | registry; `name` as findings do."""

    kind: str
    name: str
    body: str
    digest: str  # of the bytes, `sha256:` and 64 hex digits


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """One consistent reading.  `last_good_fleet` is shown while `fleet.error` is set, and never acted upon."""

    fleet: Fleet
    last_good_fleet: Fleet
    policy: Policy  # the one in force
    policy_problems: tuple[Problem, ...] = ()  # of a newer file that was rejected whole
    loaded_at: Micros = 0
    freeze_file: str = ""  # path of a FREEZE file that exists now, or ""
    texts: tuple[SourceText, ...] = ()  # of the policy in force and of the last good registry


class ConfigurationSource(Protocol):
    """Hands out snapshots.  Safe to call from several threads."""

    def current(self) -> Configuration:
        """The newest snapshot.  Never raises: what is wrong is in it."""

    def refresh(self) -> bool:
        """Look whether files changed (by digest) and read them again; returns whether the snapshot changed."""

    def freeze_file(self) -> str:
        """Path of a FREEZE file that exists now (not cached), or "".  An unreadable folder counts as frozen."""
