"""`doctor` on this machine: settings, files, data folder and store, before and beside a plane.

Looks into a store only where no plane answers for it and its schema is today's, and takes no lock, so that looking
changes nothing and is in nobody's way.  A finding names places, never what is secret in them.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from fleetwarden.adapters.files.events import EVENTS, EventsFile
from fleetwarden.adapters.files.notify import NOTIFY
from fleetwarden.adapters.files.playbooks import PLAYBOOKS
from fleetwarden.adapters.files.signals import SIGNALS, SignalsFile
from fleetwarden.app.checking import check_playbooks
from fleetwarden.app.checking_notify import check_notify
from fleetwarden.app.diagnosis import Finding, Level, examine_store, store_unreachable
from fleetwarden.app.offline import configuration_of
from fleetwarden.app.playbooks import with_installed
from fleetwarden.app.running import RunningPlane, database_file, running_plane, system_clock, token_file
from fleetwarden.app.settings import Settings, load_settings
from fleetwarden.app.storage import Storage
from fleetwarden.domain.errors import FleetError, Misconfigured
from fleetwarden.store.file_systems import network_file_system
from fleetwarden.store.glance import Glance
from fleetwarden.store.opening import open_store

__all__ = ["LocalExamination", "examine_here"]

SPACE_ERROR, SPACE_WARNING = 64 * 1024 * 1024, 512 * 1024 * 1024
_MIB = 1024 * 1024


class LocalExamination:
    """What was found on this machine; `settings` is None where they cannot be read."""

    def __init__(self, findings: list[Finding], settings: Settings | None, running: RunningPlane | None) -> None:
        self.findings = findings
        self.settings = settings
        self.running = running


def examine_here(config_dir: Path | None, environ: Mapping[str, str]) -> LocalExamination:
    """Look at everything that can be looked at without a plane."""
    try:
        settings = load_settings(config_dir, environ)
    except Misconfigured as error:
        problems = [str(one) for one in error.problems] or [error.message]
        hint = error.hint or "docs/reference/settings.md lists them all"
        found = [Finding(check="settings", level="error", told=one, hint=hint) for one in problems]
        return LocalExamination(found, None, None)
    looks = (_settings, _configuration, _signals, _events, _playbooks, _notify, _folder)
    found = [one for look in looks for one in look(settings)]
    try:
        running = running_plane(settings)
    except Misconfigured as error:
        running = None
        found.append(Finding(check="plane", level="error", told=error.message, hint=error.hint))
    found += [_plane(running), *_store(settings, running)]
    return LocalExamination(found, settings, running)


def _settings(settings: Settings) -> list[Finding]:
    found = [
        Finding(check="settings", level="warning", told=str(one), hint="correct it or leave it out")
        for one in settings.warnings
    ]
    usual = Path.cwd() / "fleet"
    besides = f"; {usual} is not used" if usual.is_dir() and usual != settings.config_dir else ""
    return found or [Finding(check="settings", level="ok", told=f"read for {settings.config_dir}{besides}")]


def _configuration(settings: Settings) -> list[Finding]:
    if not settings.config_dir.is_dir():
        told = f"there is no configuration folder {settings.config_dir}"
        return [Finding(check="configuration", level="error", told=told, hint="fleetwarden init makes one")]
    read = configuration_of(settings, system_clock())
    current, found = read.current(), list[Finding]()
    if current.fleet.error:
        told = f"the registry cannot be read: {current.fleet.error}"
        found.append(Finding(check="configuration", level="error", told=told, hint="correct the file; nothing acts"))
    for problem in (*current.fleet.problems, *current.policy_problems):
        hint = "correct it; until then the last good one holds, or none"
        found.append(Finding(check="configuration", level="error", told=str(problem), hint=hint))
    for problem in current.fleet.warnings:
        found.append(Finding(check="configuration", level="warning", told=str(problem), hint="see docs/reference"))
    if file := read.freeze_file():
        hint = "remove the file when it may act again"
        found.append(Finding(check="freeze", level="warning", told=f"{file} freezes everything", hint=hint))
    services = len(current.fleet.services)
    return found or [Finding(check="configuration", level="ok", told=f"{services} services and a policy can be used")]


def _signals(settings: Settings) -> list[Finding]:
    """What scaling reads; nothing where there is no such file."""
    if not (settings.config_dir / SIGNALS).exists():
        return []
    url = "" if settings.scaling_prometheus_url is None else str(settings.scaling_prometheus_url)
    file = SignalsFile(settings.config_dir, default_url=url)
    hint = "correct it; until then a running plane keeps the last good one, and a new one has no signals"
    found = [Finding(check="signals", level="error", told=str(one), hint=hint) for one in file.problems]
    known = len(file.current().definitions)
    told = "1 signal is declared" if known == 1 else f"{known} signals are declared"
    return found or [Finding(check="signals", level="ok", told=told)]


def _playbooks(settings: Settings) -> list[Finding]:
    """What answers events: what is installed and chosen, and the file where there is one."""
    try:
        with_installed(settings.fleet_playbooks)
    except Misconfigured as error:
        hint = f"{error.hint or 'correct FLEET_PLAYBOOKS'}; until then no plane starts"
        return [Finding(check="playbooks", level="error", told=f"FLEET_PLAYBOOKS: {error.message}", hint=hint)]
    file = settings.config_dir / PLAYBOOKS
    if not file.exists():
        return []
    told = check_playbooks(file)
    hint = "correct it; until then a running plane keeps the last good one, and a new one has the shipped ones only"
    found = [Finding(check="playbooks", level="error", told=str(one), hint=hint) for one in told.problems]
    number = "1 playbook is" if told.number == 1 else f"{told.number} playbooks are"
    return found or [Finding(check="playbooks", level="ok", told=f"{number} declared")]


def _notify(settings: Settings) -> list[Finding]:
    """Who is told what; nothing where there is no such file."""
    if not (settings.config_dir / NOTIFY).exists():
        return []
    told = check_notify(settings.config_dir)
    hint = "correct it; until then a running plane keeps the last good one"
    found = [Finding(check="notify", level="error", told=one, hint=hint) for one in told["problems"]]
    hint = "people are not told until this is put right"
    found += [Finding(check="notify", level="warning", told=one, hint=hint) for one in told["warnings"]]
    return found or [Finding(check="notify", level="ok", told=told["told"])]


def _events(settings: Settings) -> list[Finding]:
    """Who sends events by name; nothing where there is no such file."""
    if not (settings.config_dir / EVENTS).exists():
        return []
    file = EventsFile(settings.config_dir)
    hint = "correct it; until then a running plane keeps the last good one, and a new one knows no source by name"
    found = [Finding(check="events", level="error", told=str(one), hint=hint) for one in file.problems]
    known = len(file.current().sources)
    told = "1 source of events is declared" if known == 1 else f"{known} sources of events are declared"
    return found or [Finding(check="events", level="ok", told=told)]


def _folder(settings: Settings) -> list[Finding]:
    folder = settings.fleet_data_dir
    if not folder.is_dir():
        told = f"there is no data folder {folder} yet"
        return [Finding(check="data folder", level="warning", told=told, hint="the first 'fleetwarden up' makes it")]
    found = []
    if not os.access(folder, os.W_OK | os.X_OK):
        hint = "it belongs to whoever runs the plane; FLEET_DATA_DIR names another"
        found.append(Finding(check="data folder", level="error", told=f"{folder} is not writable", hint=hint))
    for path, allowed in ((folder, 0o700), (token_file(settings), 0o600), (database_file(settings), 0o600)):
        if path is None or not path.exists():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & ~allowed & 0o077:
            told = f"{path} can be read by others (mode {mode:o})"
            found.append(Finding(check="data folder", level="warning", told=told, hint=f"chmod {allowed:o} {path}"))
    free = shutil.disk_usage(folder).free
    if free < SPACE_WARNING:
        level: Level = "error" if free < SPACE_ERROR else "warning"
        told, hint = f"{free // _MIB} MiB are free in {folder}", "without room nothing can be decided or written down"
        found.append(Finding(check="disk", level=level, told=told, hint=hint))
    if found:
        return found
    return [Finding(check="data folder", level="ok", told=f"{folder} is private, {free // _MIB} MiB are free")]


def _plane(running: RunningPlane | None) -> Finding:
    if running is None:
        return Finding(check="plane", level="warning", told="no plane runs here", hint="fleetwarden up starts one")
    who = f"process {running.pid} on {running.host}"
    if not running.url:
        told = f"{who} holds the data folder and has no address yet"
        return Finding(check="plane", level="warning", told=told, hint="it starts, or another command has the store")
    return Finding(check="plane", level="ok", told=f"{who} holds the data folder and answers at {running.url}")


def _store(settings: Settings, running: RunningPlane | None) -> list[Finding]:
    file = database_file(settings)
    kind = "" if file is None else network_file_system(file)
    if kind:
        told = f"the database lies on a network file system ({kind}), where it cannot be locked"
        hint = "a local FLEET_DATA_DIR, or PostgreSQL: a plane is refused there"
        return [Finding(check="store", level="error", told=told, hint=hint)]
    try:
        schema = Storage(settings, system_clock()).schema()
    except FleetError as error:
        return [store_unreachable(error)]
    if schema["newer"]:
        told = f"the store has schema {schema['schema']}, newer than this version knows ({schema['newest']})"
        hint = "run the newer version, or restore a backup from before"
        return [Finding(check="schema", level="error", told=told, hint=hint)]
    if schema["schema"] is None:
        told = "there is no store yet"
        return [Finding(check="schema", level="ok", told=f"{told}: the first start makes it")]
    if schema["outdated"]:
        told = f"the store has schema {schema['schema']}, this version has {schema['newest']}"
        hint = "fleetwarden db migrate (a start does it too), after a backup that it makes itself"
        return [Finding(check="schema", level="warning", told=told, hint=hint)]
    found = [Finding(check="schema", level="ok", told=f"schema {schema['schema']}")]
    if running is None:
        found += _closed_store(settings, file)
    return found


def _closed_store(settings: Settings, file: Path | None) -> list[Finding]:
    """What the rows tell.  A file's lock is not taken: a plane may start in this moment."""
    if file is not None:
        return examine_store(Glance(file, system_clock()), system_clock())
    try:
        store = open_store(settings.store_address, system_clock())
    except FleetError as error:
        return [store_unreachable(error)]
    try:
        return examine_store(store, system_clock())
    finally:
        store.close()
