"""Looking at notify.yml before a plane does.  Reads the file by the plane's own reader, and sends nothing."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import Any

from fleetwarden.adapters.files.notify import NOTIFY, NotifyFile
from fleetwarden.adapters.messages import library_problem
from fleetwarden.app import plugins
from fleetwarden.domain.notify_file import NotifyDocument, Route

__all__ = ["check_notify", "notify_warnings"]


def check_notify(folder: Path) -> dict[str, Any]:
    """`{file, problems, warnings, told, routes}`: sentences for people, problems with their lines."""
    file = NotifyFile(folder, log_problems=False)
    document, problems = file.current(), [str(one) for one in file.problems]
    if problems:
        told = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}; a running plane keeps the last good one"
    elif not file.exists:
        told = f"{folder} has no {NOTIFY}: notices stand in the journal, and nobody else is told"
    else:
        told = f"{_many(document.targets, 'target')} and {_many(document.routes, 'route')} can be used"
    return {
        "file": str(folder / NOTIFY),
        "problems": problems,
        "warnings": notify_warnings(document, folder),
        "told": told,
        "routes": [_words(one) for one in document.routes],
    }


def notify_warnings(document: NotifyDocument, folder: Path) -> list[str]:
    """What is legal and will not work, or tells nobody."""
    used = {name for one in document.routes for name in one.to}
    idle = [name for name in document.targets if name not in used]
    found = [f"{NOTIFY}  target {name} is in no route: it is told nothing" for name in idle]
    if any(not one.plugin for one in document.targets.values()) and (why := library_problem()):
        found.append(f"{NOTIFY}  {why}")
    for name, one in document.targets.items():
        if one.url_file and not (folder / one.url_file).is_file():
            found.append(f"{NOTIFY}:{one.line}  target {name}: there is no file {one.url_file}")
        if one.plugin and one.plugin not in plugins.installed(plugins.NOTIFIERS):
            found.append(f"{NOTIFY}:{one.line}  target {name}: no notifier {one.plugin!r} is installed")
    return found


def _words(route: Route) -> str:
    what = " or ".join(route.severity) or "everything"
    where = f" of group {route.group}" if route.group else ""
    return f"{what}{where} → {', '.join(route.to)}"


def _many(things: Sized, word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
