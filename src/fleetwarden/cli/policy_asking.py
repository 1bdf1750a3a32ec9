"""`policy explain` and `policy test`: what a policy file says to one request, or to a file of cases, and why.

Both read files only.  `explain` also weighs the overrides of the plane that runs here, if one answers; without a plane
it says that none were looked at.  Budgets are those of an unused ledger: used ones are for `explain SERVICE`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fleetwarden.cli.calling import Call
from fleetwarden.cli.invocation import from_here
from fleetwarden.cli.policy_screen import show_explained, show_tried
from fleetwarden.domain.errors import FleetError, Misconfigured

__all__ = ["POLICY", "chosen", "explain", "try_cases"]

POLICY = "policy.yml"
FileOption = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="Another policy file than the folder's.")
]


def chosen(call: Call, path: Path | None) -> tuple[Path | None, Path | None]:
    """The policy file (None: the folder has none) and the configuration folder, if one was named.

    Raises Misconfigured if what was named does not exist.
    """
    if path is not None and not path.is_dir():
        if not path.exists():
            raise Misconfigured(f"{path} does not exist", hint="name a policy file or a configuration folder")
        return path, None
    if path is not None:
        call.config = path
    settings = call.settings
    if not settings.config_dir.is_dir():
        raise Misconfigured(f"{settings.config_dir} does not exist", hint=f"make one: {call.command('init')}")
    named = settings.action_policy_path
    if named is not None:
        return named, settings.config_dir
    usual = settings.config_dir / POLICY
    return (usual if usual.exists() else None), settings.config_dir


def explain(
    call: Call,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What would be asked for, such as restart_service.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The service.")],
    policy: FileOption = None,
    group: Annotated[str, typer.Option("--group", help="Default: the group in fleet.yml.")] = "",
    source: Annotated[str, typer.Option("--source", help="Who asks: reconciler, operator, api, …")] = "operator",
    substrate: Annotated[str, typer.Option("--substrate", help="Default: the one in fleet.yml.")] = "",
    direction: Annotated[str, typer.Option("--direction", help="up or down: which way a count would move.")] = "",
    param: Annotated[list[str] | None, typer.Option("--param", metavar="K=V", help="Such as replicas=3.")] = None,
    at: Annotated[str, typer.Option("--at", metavar="TIME", help="Such as 2026-12-24T23:30:00Z.  Default: now.")] = "",
) -> None:
    """Say which rules match a request, which one decides and why, and what each other one would have said."""
    from fleetwarden.app import policy_trials

    file, folder = chosen(call, policy)
    asked: dict[str, Any] = {
        "kind": kind,
        "target": target,
        "group": group,
        "source": source,
        "substrate": substrate,
        "direction": direction,
        "params": _params(param or []),
    }
    running = None if policy is not None else _overrides(call)
    said, request = policy_trials.explain(
        policy_trials.policy_of(None if file is None else Path(from_here(file))),
        asked,
        fleet=policy_trials.known_services(folder or (file or Path()).parent),
        overrides=running or (),
        at=at,
    )
    body = {"request": request, "at": at or None, "overrides_of_a_plane": running is not None}
    show_explained(call, said, body)


def try_cases(
    call: Call,
    cases: Annotated[Path, typer.Argument(metavar="CASES.yml", help="The cases: requests and what is expected.")],
    policy: FileOption = None,
) -> None:
    """Hold a policy against a file of cases.  1 if one fails, 2 if a file cannot be used."""
    from fleetwarden.app import policy_trials

    if not cases.exists():
        raise Misconfigured(f"{cases} does not exist", hint="name a file of cases")
    file = None
    folder = cases.parent
    if policy is not None:
        file, _ = chosen(call, policy)
        assert file is not None or policy.is_dir()
        file = file or policy / POLICY
    elif call.config is not None:
        file, found = chosen(call, None)
        folder = found or folder
    tried = policy_trials.try_cases(
        Path(from_here(cases)), policy=None if file is None else Path(from_here(file)), folder=folder
    )
    show_tried(call, tried)
    if tried.failed:
        raise typer.Exit(1)


def _params(given: list[str]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name or not equals or name in params:
            raise Misconfigured(f"--param {one!r} is not K=V, or stands twice", hint="such as --param replicas=3")
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        params[name] = read if isinstance(read, (int, bool)) and name != "version" else value  # 1.10 is not 1.1
    return params


def _overrides(call: Call) -> list[dict[str, Any]] | None:
    """The overrides of the plane that runs here; None if none runs or answers."""
    try:
        client = call.remote()
        found = None if client is None else client.get("/policy").get("overrides", [])
    except FleetError:
        return None
    if found is None:
        return None
    return [{"id": one["id"], "active": one["active"], **one["rule"]} for one in found]
