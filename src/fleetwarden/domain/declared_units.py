"""The elastic units of a declared fleet, held against each other.

A unit that breaks the contract is no reason to reject its service: it is repaired, restarted and deployed as before,
and its count is held, with the reason where people look.  Nothing is corrected here.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.domain.contract.authority import Catalogue, ContractProblem, check
from fleetwarden.domain.contract_file import CountBounds, assemble, read_declared
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.located import Findings, Node

__all__ = ["bounds_of", "contract_of"]


def bounds_of(service: Service) -> CountBounds | None:
    """What a service says about its count, or None where it is no elastic unit: neither `scaling:` nor `unit:`."""
    if service.scaling is None and service.unit is None:
        return None
    if service.scaling is not None:
        low, high = service.scaling.min, service.scaling.max
    else:
        low, high = service.replicas, service.replicas
    return CountBounds(
        service=service.name,
        low=low,
        high=high,
        controller_mode="native" if service.scaling is None else service.scaling.controller_mode,
        unit=service.unit,
        depends_on=service.depends_on,
    )


def contract_of(
    found: Findings, keys: Mapping[str, Node], services: Mapping[str, Service]
) -> tuple[Catalogue, Mapping[str, str]]:
    """The catalogue of this reading, and by service why its count is held.  Findings go to `found`, with their lines.

    What does not hold between records is a warning there: the file is in force, and those units stand still.
    """
    declared = read_declared(found, keys)
    elastic = [bounds for one in services.values() if (bounds := bounds_of(one)) is not None]
    catalogue = assemble(declared, elastic)
    held: dict[str, str] = {}
    for problem in check(catalogue):
        for name in problem.units:
            held.setdefault(name, f"{problem.about}: {problem.reason}")
        found.warnings.append(_told(problem, keys, services))
    return catalogue, held


def _told(problem: ContractProblem, keys: Mapping[str, Node], services: Mapping[str, Service]) -> Problem:
    kind, _, name = problem.about.partition(" ")
    node = keys.get(f"{kind}s")
    if kind == "unit" and (service := services.get(name)) is not None:
        file, _, line = service.source.split(",")[0].rpartition(":")
        if service.unit is not None:
            file, line = service.unit.file, str(service.unit.line)
        return Problem(file, int(line or 0), f"{name}: scaling contract: {problem.reason}: its count is held")
    place = None if node is None or not node.mapping else node.get(name)
    where = place or node
    stopped = f" (held: {', '.join(problem.units[:5])})" if problem.units else ""
    told = f"scaling contract: {problem.about}: {problem.reason}{stopped}"
    return Problem("" if where is None else where.file, 0 if where is None else where.line, told)
