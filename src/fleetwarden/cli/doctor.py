"""`doctor`: what is wrong, and what to do about each of it.  1 if something is.

Looks at this machine first, then asks the plane.  A plane that cannot be asked is a finding, not the end of the answer.
"""

from __future__ import annotations

import os
from typing import Any

import typer

from fleetwarden.cli.calling import Call, connected
from fleetwarden.domain.errors import FleetError

__all__ = ["doctor"]

SIGNS = {"ok": "✓", "warning": "!", "error": "✗"}
TONES = {"ok": "good", "warning": "warn", "error": "bad"}


@connected
def doctor(call: Call) -> None:
    """Look at settings, folders, store and plane, and say what to do about what is wrong."""
    findings = _findings(call)
    errors, warnings = (sum(1 for one in findings if one["level"] == level) for level in ("error", "warning"))
    if call.as_json:
        call.show_json({"findings": findings, "errors": errors, "warnings": warnings})
    else:
        _show(call, findings, errors, warnings)
    if errors:
        raise typer.Exit(1)


def _findings(call: Call) -> list[dict[str, Any]]:
    from fleetwarden.app.diagnosis import plain
    from fleetwarden.app.doctor import examine_here

    examined = examine_here(call.config, os.environ)
    here = list(plain(examined.findings)["findings"])
    if examined.settings is None:
        return here
    return _of_plane(call) if call.names_a_plane else [*here, *_of_plane(call)]


def _of_plane(call: Call) -> list[dict[str, Any]]:
    try:
        client = call.remote_if_ready()
        return [] if client is None else list(client.get("/doctor")["findings"])
    except FleetError as error:
        told = f"the plane cannot be asked: {error.message}"
        return [{"check": "plane", "level": "error", "told": told, "hint": error.hint or None}]


def _show(call: Call, findings: list[dict[str, Any]], errors: int, warnings: int) -> None:
    for one in sorted(findings, key=lambda one: ("error", "warning", "ok").index(one["level"])):
        level = one["level"]
        call.screen.line(f"{SIGNS[level]} {one['check']}: {call.words(one['told'])}", tone=TONES[level])
        if one["hint"] and level != "ok":
            call.screen.line(f"→ {call.words(one['hint'])}", indent=4)
    told = f"{errors} to be put right, {warnings} to look at" if errors or warnings else "nothing is wrong"
    call.screen.line(told)
