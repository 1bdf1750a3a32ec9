"""What is asked for now: the files, with overrides and held changes layered over them, read in one transaction.

Whoever compares the fleet with what is wanted takes its services from here and from nowhere else, so that a wish holds
in every place at the same moment.  It never looks at the fleet, and a wish that is younger answers one that is older.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from fleetwarden.controllers.quarantining import Marks, marks_of
from fleetwarden.controllers.rollouts import rolled_back, why_not_again
from fleetwarden.domain.desired import ForeignChange, ForeignField, ForeignState, Override, layered
from fleetwarden.domain.fleet import Fleet, Service
from fleetwarden.ports.configuration import Configuration
from fleetwarden.ports.stores import Tx
from fleetwarden.ports.versions import RanVersion

__all__ = ["answer_changes", "as_asked"]


def as_asked(tx: Tx, configuration: Configuration) -> Configuration:
    """The configuration with every service as it is asked for at `tx.now()`.  Raises StoreUnavailable."""
    overrides = {one.service: one for one in tx.service_overrides.standing()}
    changes: dict[str, list[ForeignChange]] = defaultdict(list)
    for one in tx.foreign.standing():
        changes[one.service].append(one)
    undone = rolled_back(tx)
    marks = marks_of(tx)
    counts = _left_by_load(configuration, tx.allocations.all())
    names = overrides.keys() | changes.keys() | undone.keys() | counts.keys() | marks.services
    if not names:
        return configuration

    def over(fleet: Fleet) -> Fleet:
        new = {
            name: _held_back(
                layered(_counted(fleet.services[name], counts), overrides.get(name), changes.get(name, ())),
                undone.get(name),
                marks,
            )
            for name in names
            if name in fleet.services
        }
        return msgspec.structs.replace(fleet, services={**fleet.services, **new})

    same = configuration.last_good_fleet is configuration.fleet
    fleet = over(configuration.fleet)
    last_good = fleet if same else over(configuration.last_good_fleet)
    return msgspec.structs.replace(configuration, fleet=fleet, last_good_fleet=last_good)


def _left_by_load(configuration: Configuration, allocated: Mapping[str, int]) -> Mapping[str, int]:
    """By service that follows load: the count that its last executed change left, where the files say another.

    It is what a start brings back; nothing else is done about it.
    """
    services = configuration.last_good_fleet.services
    return {
        name: count
        for name, count in allocated.items()
        if (one := services.get(name)) is not None and one.scaling is not None and one.replicas != count
    }


def _counted(service: Service, counts: Mapping[str, int]) -> Service:
    count = counts.get(service.name)
    if count is None:
        return service
    source = ", ".join(part for part in (service.source, "count from its last scaling") if part)
    return msgspec.structs.replace(service, replicas=count, source=source)


def _held_back(service: Service, last: RanVersion | None, marks: Marks) -> Service:
    """With the reason why its declared version is not deployed: it failed its watch, or it was rolled back from.

    A person who clears a quarantine answers the rollback before that, too.
    """
    aside = marks.of(service.name)
    held = aside.get(service.version, "")
    why = "" if last is None else why_not_again(last, service.version)
    if why and last is not None and marks.forgiven(service.name, service.version, last.at):
        why = ""
    if not (why or aside):
        return service
    return msgspec.structs.replace(service, rolled_back=why, quarantined=held, aside=aside)


def answer_changes(tx: Tx, override: Override) -> list[str]:
    """End what somebody else set in the fields that a new override names: it is the answer to that.

    Part of the transaction that writes the override; returns the ids of what it ended.
    """
    fields = {ForeignField.REPLICAS} if override.replicas is not None else set[ForeignField]()
    fields |= {ForeignField.STATE} if override.state is not None else set()
    ended = []
    for one in tx.foreign.standing():
        if one.service == override.service and one.field in fields:
            tx.foreign.move(
                one.seq,
                came_from=one.status,
                to=ForeignState.REPLACED,
                by=override.by,
                note=f"override {override.id}",
            )
            ended.append(one.id)
    return ended
