"""Versions of a service: which can run, what they are, and whether what runs is what is declared.

Pure look-ups over a declaration and an observation.  Only a deploy or a rollback changes the version that a replica
runs; whatever else starts a replica again starts the version that it had.  A definition is what a process is made from
(command, folder, environment, first port): two of one version can differ, and a replica keeps the one it was started
by until it is started again.  Nothing here decides whether anything is done about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fleetwarden.domain.actions import ActionRequest, Kind, Outcome
from fleetwarden.domain.fleet import InstanceStatus, ObservedInstance, ObservedService, Service
from fleetwarden.domain.identifiers import digest

__all__ = [
    "NOT_UP",
    "ROLLOUTS",
    "as_version",
    "brought_back",
    "definition",
    "differing",
    "irreversible",
    "kept_from_start",
    "listed",
    "not_up",
    "older_definition",
    "ran_last",
    "runnable",
    "running",
    "unclear",
    "unknown_version",
]

ROLLOUTS = frozenset({Kind.DEPLOY, Kind.ROLLBACK})
NOT_UP = "not_up"  # among the codes in `evidence["failures"]` of a roll-out's outcome


def runnable(service: Service, version: str) -> bool:
    """Whether a replica of that version can be started: it is listed, or there is no list and one command for all."""
    spec = service.process
    return spec is None or not spec.versions or version in spec.versions


def listed(service: Service) -> list[str]:
    """The versions that can be rolled out to.  Without a list only the declared version is known."""
    spec = service.process
    given = list(spec.versions) if spec is not None and spec.versions else [service.version]
    return [one for one in given if one]


def unknown_version(service: Service, version: str) -> str | None:
    """Why that version cannot be rolled out to, or None."""
    known = listed(service)
    if version in known:
        return None
    return f"version {version!r} of {service.name} is not in the registry (known: {', '.join(known) or 'none'})"


def as_version(service: Service, version: str) -> Service:
    """The service as it would be declared with that version: the version's own command where it has one."""
    spec = service.process
    if spec is None:
        return msgspec.structs.replace(service, version=version)
    own = spec.versions.get(version)
    command = own.command if own is not None and own.command else spec.command
    return msgspec.structs.replace(service, version=version, process=msgspec.structs.replace(spec, command=command))


def definition(service: Service, version: str) -> str:
    """Digest of what a replica of that version is made from; "" for what is no local process.

    How it is probed, stopped or counted is no part of it: that holds for what runs, too.
    """
    spec = as_version(service, version).process
    if spec is None:
        return ""
    return digest([spec.command, spec.cwd, spec.env, spec.port])[:23]


def irreversible(request: ActionRequest, service: Service | None) -> str:
    """Why this rollout cannot be undone, by what the registry says of its version; "" if nothing says so.

    Asked of the registry and not of the request, which whoever asks has written.
    """
    if request.kind not in ROLLOUTS or service is None or service.process is None:
        return ""
    versions = service.process.versions
    wanted = versions.get(str(request.params.get("version", "")))
    if wanted is not None and wanted.irreversible:
        return f"version {request.params['version']} is marked irreversible"
    declared = versions.get(service.version)
    if request.kind == Kind.ROLLBACK and declared is not None and declared.irreversible:
        return f"version {service.version}, which it would leave, is marked irreversible"
    return ""


def running(observed: ObservedService) -> Sequence[str]:
    """The versions of its replicas, each once, in the order of the replicas; empty where none is known, or none is."""
    told = [one.version for one in observed.instances if one.version]
    there = bool(observed.existing or observed.total)
    return list(dict.fromkeys(told or ([observed.version] if observed.version and there else [])))


def brought_back(service: Service, ran: Sequence[str]) -> Sequence[str]:
    """The versions that a start gives its replicas: those that ran, as far as they can run, else the declared one.

    `ran`: the versions of its slots, or without any the one that ran last; empty where none ever did.
    """
    if not service.version:
        return []
    return [one for one in ran if one and runnable(service, one)] or [service.version]


def ran_last(observed: ObservedService) -> Sequence[str]:
    """For `brought_back`: what was seen of it, whether it is there or was stopped."""
    return [one.version for one in observed.instances if one.version] or [observed.version]


def kept_from_start(service: Service, ran: Sequence[str], aside: Mapping[str, str]) -> str:
    """Why a start must not be made: a version that it would bring back is set aside; "" if none is.

    `aside`: the quarantined versions, and for each the words of its quarantine.
    """
    held = next((one for one in brought_back(service, ran) if one in aside), None)
    if held is None or held == service.version:
        return "" if held is None else aside[held]
    way = f", or take it off the list of versions: then {service.version} is started" if listed(service)[1:] else ""
    return (
        f"version {held} of {service.name} ran last and would be brought back, and it is in quarantine: it failed its "
        f"watch. Clear it with `fleetwarden quarantine clear {service.name} --reason TEXT`{way}"
    )


def unclear(observed: ObservedService) -> bool:
    """Whether some replicas tell their version and others, such as one that is being started, do not yet."""
    told = [bool(one.version) for one in observed.instances]
    return any(told) and not all(told)


def not_up(kind: str, outcome: Outcome) -> bool:
    """Whether a roll-out ended because what it started did not come up: that is evidence about its version."""
    codes = outcome.evidence.get("failures")
    return kind in ROLLOUTS and not outcome.ok and isinstance(codes, Sequence) and NOT_UP in codes


def differing(service: Service, observed: ObservedService) -> str | None:
    """What runs instead of the declared version, in words, or None."""
    if not service.version:
        return None
    others = [one for one in running(observed) if one != service.version]
    if not others:
        return None
    return f"version {', '.join(others)} runs, {service.version} is declared"


def older_definition(service: Service, observed: ObservedService) -> str | None:
    """Which replicas run an older definition of their own version, in words, or None."""
    old = [one.id for one in observed.instances if _is_older(service, one)]
    if not old:
        return None
    which = ", ".join(f"#{one}" for one in old[:5]) + (f" and {len(old) - 5} more" if len(old) > 5 else "")
    return f"{which} runs an older definition; restart to apply what is declared now"


def _is_older(service: Service, one: ObservedInstance) -> bool:
    alive = one.status in (InstanceStatus.UP, InstanceStatus.STARTING)
    return alive and bool(one.definition) and one.definition != definition(service, one.version)
