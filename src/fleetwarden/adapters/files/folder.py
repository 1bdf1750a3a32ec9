"""The configuration folder as one consistent snapshot: the fleet, the policy in force, and what is wrong with either.

A change is taken when the content differs (times of files say nothing) and has held still for a moment, so that neither
the gap in which an editor replaces a file nor its first half is taken for what somebody meant.  Each file fails in
its own way.  A registry that cannot be used is an error state that stays visible: nothing may be reconciled from it,
and the last good fleet is kept only to be shown.  A policy that cannot be used leaves the last good one in force, at
the first start the shipped one, because no policy at all would be the most dangerous answer.  A file that nothing reads
yet is named: silence would look like consent.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec

from fleetwarden.adapters.files.documents import Document, read_document
from fleetwarden.domain.errors import Misconfigured, Problem
from fleetwarden.domain.fleet import Fleet
from fleetwarden.domain.identifiers import digest
from fleetwarden.domain.located import Node
from fleetwarden.domain.policy_default import SHIPPED_TEXT
from fleetwarden.domain.policy_document import SHIPPED, Policy
from fleetwarden.domain.policy_file import read_policy
from fleetwarden.domain.registry import failed_fleet, read_fleet
from fleetwarden.ports.configuration import Configuration, SourceText
from fleetwarden.ports.system import Clock

__all__ = ["FREEZE", "ConfigurationFolder"]

REGISTRY, OVERRIDE, POLICY, FREEZE = "fleet.yml", "desired-state.yml", "policy.yml", "FREEZE"
BESIDES = ("notify.yml", "signals.yml")  # read by readers of their own
SETTLE_S = 0.2  # a change has to stand still for this long before it is taken
SETTLE_TRIES_MAX = 10


class _Seen(msgspec.Struct, frozen=True):
    """One look at all files."""

    registry: Document
    override: Document
    policy: Document
    warnings: tuple[Problem, ...]

    @property
    def fingerprint(self) -> tuple[object, ...]:
        return self.registry.fingerprint, self.override.fingerprint, self.policy.fingerprint, self.warnings


class ConfigurationFolder:
    """A `ConfigurationSource` over files.

    `registry`: the registry's path.  `override` and `policy`: paths that somebody chose, which have to be there; left
    out, `desired-state.yml` and `policy.yml` of the folder are read if they are there.  `folder`: the configuration
    folder (left out: where the registry stands), from which processes' relative paths start.  `freeze_folders`: where a
    FREEZE file freezes.  The files are read once here; later only by `refresh`.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        registry: Path,
        override: Path | None = None,
        policy: Path | None = None,
        folder: Path | None = None,
        freeze_folders: Sequence[Path] = (),
    ) -> None:
        self._clock = clock
        self._folder = (folder or registry.parent).absolute()
        self._registry = registry
        self._override = override or self._folder / OVERRIDE
        self._policy = policy or self._folder / POLICY
        self._override_chosen = override is not None
        self._policy_chosen = policy is not None
        self._freeze_folders = tuple(freeze_folders)
        self._folders_seen: set[Path] = set()
        self._lock = threading.Lock()
        self._good_policy: Policy | None = None  # read from a file, at any time of this process
        self._policy_text = SourceText(kind="policy", name=SHIPPED.source, body=SHIPPED_TEXT, digest=SHIPPED.digest)
        self._registry_texts: tuple[SourceText, ...] = ()
        self._seen = self._look()
        fleet = self._read_fleet(self._seen, Fleet())
        policy_in_force, problems = self._read_policy(self._seen.policy)
        self._current = Configuration(
            fleet=fleet,
            last_good_fleet=Fleet() if fleet.error else fleet,
            policy=policy_in_force,
            policy_problems=problems,
            loaded_at=clock.now(),
            freeze_file=self.freeze_file(),
            texts=(self._policy_text, *self._registry_texts),
        )

    def current(self) -> Configuration:
        """The newest snapshot."""
        return self._current

    def refresh(self) -> bool:
        """Read what changed; returns whether the snapshot did.  Takes a fraction of a second when something changed."""
        with self._lock:
            before = self._current
            seen = self._settled()
            if seen is not None:
                self._current = self._reread(self._seen, seen, before)
                self._seen = seen
            frozen_by = self.freeze_file()
            if frozen_by != self._current.freeze_file:
                self._current = msgspec.structs.replace(self._current, freeze_file=frozen_by)
            return self._current is not before

    def freeze_file(self) -> str:
        """The path of a FREEZE file that exists now, or "".

        A folder that cannot be looked into counts as frozen, and so does one that was there and is gone.
        """
        for folder in self._freeze_folders:
            path = folder / FREEZE
            try:
                os.lstat(path)  # a link that leads nowhere was put there by somebody, too
            except FileNotFoundError:
                if folder.is_dir():
                    self._folders_seen.add(folder)
                elif folder in self._folders_seen:
                    return f"{path} (the folder is gone)"
            except OSError as error:
                return f"{path} (cannot be looked for: {error.strerror or error})"
            else:
                return str(path)
        return ""

    def _look(self) -> _Seen:
        return _Seen(
            registry=read_document(self._registry, self._name(self._registry)),
            override=read_document(self._override, self._name(self._override)),
            policy=read_document(self._policy, self._name(self._policy)),
            warnings=self._unread_files(),
        )

    def _settled(self) -> _Seen | None:
        """A look that differs from the last one and stood still, or None if nothing is new.

        A file that never stands still cannot be had; what follows from that is the same as for any unreadable file.
        """
        before = last = self._look()
        for _ in range(SETTLE_TRIES_MAX):
            if last.fingerprint == self._seen.fingerprint:
                return None
            self._clock.wait(threading.Event(), SETTLE_S)
            again = self._look()
            if again.fingerprint == last.fingerprint:
                return again
            before, last = last, again
        return msgspec.structs.replace(
            last,
            registry=_if_still(before.registry, last.registry),
            override=_if_still(before.override, last.override),
            policy=_if_still(before.policy, last.policy),
        )

    def _reread(self, old: _Seen, new: _Seen, before: Configuration) -> Configuration:
        fleet, policy, problems = before.fleet, before.policy, before.policy_problems
        if (old.registry.fingerprint, old.override.fingerprint, old.warnings) != (
            new.registry.fingerprint,
            new.override.fingerprint,
            new.warnings,
        ):
            fleet = self._read_fleet(new, before.last_good_fleet)
        if old.policy.fingerprint != new.policy.fingerprint:
            policy, problems = self._read_policy(new.policy)
        return Configuration(
            fleet=fleet,
            last_good_fleet=before.last_good_fleet if fleet.error else fleet,
            policy=policy,
            policy_problems=problems,
            loaded_at=self._clock.now(),
            freeze_file=before.freeze_file,
            texts=(self._policy_text, *self._registry_texts),
        )

    def _read_fleet(self, seen: _Seen, previous: Fleet) -> Fleet:
        """The fleet of both layers.  Anything that is wrong with either file as a whole is an error state."""
        layered = seen.override.exists or self._override_chosen
        parts = [one.fingerprint for one in ((seen.registry, seen.override) if layered else (seen.registry,))]
        text_digest = parts[0] if len(parts) == 1 else digest(parts)
        trees: list[Node] = []
        problems: list[Problem] = []
        for document in (seen.registry, seen.override) if layered else (seen.registry,):
            try:
                trees.append(document.tree())
            except Misconfigured as error:
                problems += error.problems
        if problems:
            fleet = failed_fleet(problems, text_digest)
        else:
            layer = trees[1] if layered else None
            fleet = read_fleet(trees[0], layer, str(self._folder), text_digest, previous)
        if not fleet.error:
            read = (seen.registry, seen.override) if layered else (seen.registry,)
            self._registry_texts = tuple(_source_text("registry", one) for one in read)
        return msgspec.structs.replace(fleet, warnings=(*fleet.warnings, *seen.warnings))

    def _read_policy(self, document: Document) -> tuple[Policy, tuple[Problem, ...]]:
        """The policy that is in force now, and why it is not the file's."""
        if not document.exists and not self._policy_chosen and self._good_policy is None:
            return SHIPPED, ()
        in_force = self._good_policy or SHIPPED
        if not document.exists:
            what = "the policy last read from it" if self._good_policy else "the shipped default"
            return in_force, (Problem(document.name, 0, f"does not exist: {what} is in force"),)
        try:
            self._good_policy = read_policy(document.tree(), text_digest=document.fingerprint)
        except Misconfigured as error:
            return in_force, error.problems or (Problem(document.name, 0, error.message),)
        self._policy_text = _source_text("policy", document)
        return self._good_policy, ()

    def _unread_files(self) -> tuple[Problem, ...]:
        """Files of the folder that look as if they had an effect and have none."""
        try:
            names = sorted(path.name for path in self._folder.iterdir())
        except OSError:
            return ()  # whatever was to be read from it says so itself
        known = (REGISTRY, OVERRIDE, POLICY)
        used = {path.name for path in (self._registry, self._override, self._policy) if path.parent == self._folder}
        found = []
        for name in names:
            if name in used or not name.endswith((".yml", ".yaml")):
                continue
            if name in BESIDES:
                continue
            if name in known:
                found.append(Problem(name, 0, "is not read: the settings name another file"))
            elif close := get_close_matches(name, (*known, *BESIDES), n=1, cutoff=0.8):
                found.append(Problem(name, 0, f"is not read (did you mean {close[0]}?)"))
        return tuple(found)

    def _name(self, path: Path) -> str:
        """How findings call a file: short inside the folder, whole elsewhere."""
        path = path.absolute()
        return str(path.relative_to(self._folder)) if path.is_relative_to(self._folder) else str(path)


def _source_text(kind: str, document: Document) -> SourceText:
    """The text of a document that was understood, and is therefore UTF-8."""
    body = (document.data or b"").decode()
    return SourceText(kind=kind, name=document.name, body=body, digest=document.fingerprint)


def _if_still(before: Document, now: Document) -> Document:
    """The document as it is now, unless it was another a moment ago."""
    if before.fingerprint == now.fingerprint:
        return now
    return now.failed(f"does not stand still for {SETTLE_S} s: something keeps writing it")
