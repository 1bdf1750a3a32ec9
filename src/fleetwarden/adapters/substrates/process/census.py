"""Whose processes are these?  Slot files and live processes brought together, as a pure decision.

Neither source is enough alone: a file may be older or newer than the process it names, and a process may live that
nobody wrote down.  The rules are here and nowhere else.  The process that a file names counts if pid, start time and
boot agree.  Failing that, a live session leader with the slot's marker is the instance: under the same key only where
the file is a plan (a spawn that was never recorded), for a later process of an instance that is known to have ended is
what it left behind.  A second live process under another key is reported beside the first.  Nothing is ended here.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fleetwarden.adapters.substrates.process.proc import Marked, ProcessId, ProcessTable, Stat
from fleetwarden.adapters.substrates.process.slots import (
    Emptied,
    EmptiedBy,
    ServiceFiles,
    SlotRecord,
    SlotState,
    Unreadable,
)
from fleetwarden.domain.fleet import Presence

__all__ = ["Census", "SlotView", "family", "take"]

_TAKEN_AWAY = (SlotState.STOPPING, SlotState.REMOVING)


class SlotView(msgspec.Struct, frozen=True, kw_only=True):
    """One slot: what is written down of it and what lives in it.

    `leader`: the instance, alive.  `others`: further live instances of the same slot.  `leftovers`: live processes of
    an instance that itself has ended.  `counts`: it is one of the slots that we made and did not take away.
    """

    index: int
    file: SlotRecord | Unreadable | None
    leader: Stat | None = None
    leader_key: str = ""
    others: tuple[Marked, ...] = ()
    leftovers: tuple[Stat, ...] = ()
    counts: bool = True
    this_boot: bool = True

    @property
    def record(self) -> SlotRecord | None:
        return self.file if isinstance(self.file, SlotRecord) else None

    @property
    def is_recorded(self) -> bool:
        """Whether the slot's file names the very process that lives in it."""
        record = self.record
        return self.leader is not None and record is not None and record.process == self.leader.id


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """One service: its slots by index, how far it was started, and by which stop it ended."""

    service: str
    slots: tuple[SlotView, ...]
    presence: Presence
    stop_key: str = ""
    doubt: str = ""  # why the service's own file says nothing that can be relied on
    ran: str = ""  # the version that ran last, where all its slots were taken away

    @property
    def counted(self) -> tuple[SlotView, ...]:
        return tuple(slot for slot in self.slots if slot.counts)

    def slot(self, index: int) -> SlotView | None:
        return next((slot for slot in self.slots if slot.index == index), None)


def take(service: str, files: ServiceFiles, table: ProcessTable, *, boot: str, spawning: Iterable[int] = ()) -> Census:
    """The census of one service.  `spawning`: slots that this very plane is making a process for right now."""
    busy = frozenset(spawning)
    indices = sorted({*files.slots, *table.indices(service)})
    slots = tuple(
        _view(service, index, files.slots.get(index), table, boot=boot, busy=index in busy) for index in indices
    )
    presence, stop_key, doubt = _presence(files, slots)
    ran = files.emptied.version if isinstance(files.emptied, Emptied) else ""
    return Census(service=service, slots=slots, presence=presence, stop_key=stop_key, doubt=doubt, ran=ran)


def family(service: str, index: int, recorded: ProcessId | None, table: ProcessTable) -> dict[ProcessId, Stat]:
    """Every live process that is proven to belong to a slot.

    Those that carry its marker, and all of a session that is proven to be the instance's: its leader carries the
    marker, or is the recorded process, or has ended and one that carries the marker is still in it (a session keeps its
    number while anybody is in it).  A marked process in any other session counts alone: somebody may have copied the
    environment into a shell of their own.
    """
    marked = [one.stat for one in table.marked(service, index)]
    found = {stat.id: stat for stat in marked}
    heads = {stat.pid for stat in marked if stat.leads}
    known = table.present(recorded)
    if known is not None and known.lives:
        found[known.id] = known
    if recorded is not None and (
        (known is not None and known.leads) or any(stat.session == recorded.pid for stat in marked)
    ):
        heads.add(recorded.pid)
    for head in heads:
        found |= {stat.id: stat for stat in table.session(head)}
    return found


def _view(
    service: str, index: int, file: SlotRecord | Unreadable | None, table: ProcessTable, *, boot: str, busy: bool
) -> SlotView:
    record = file if isinstance(file, SlotRecord) else None
    this_boot = record is None or record.boot == boot
    recorded = record.process if record is not None and this_boot else None
    heads = sorted((one for one in table.marked(service, index) if one.stat.leads), key=lambda one: one.stat.ticks)
    leader, key = _leader(record, table.living(recorded), heads, this_boot=this_boot)
    mine = family(service, index, recorded, table)
    others: tuple[Marked, ...] = ()
    leftovers: tuple[Stat, ...] = ()
    if leader is None:
        leftovers = tuple(sorted(mine.values(), key=lambda stat: stat.ticks))
    else:
        others = _others(leader, key, heads)
    return SlotView(
        index=index,
        file=file,
        leader=leader,
        leader_key=key,
        others=others,
        leftovers=leftovers,
        counts=leader is not None or busy or _counts(file, this_boot=this_boot, empty=not leftovers),
        this_boot=this_boot or leader is not None,
    )


def _leader(
    record: SlotRecord | None, living: Stat | None, heads: list[Marked], *, this_boot: bool
) -> tuple[Stat | None, str]:
    """The live instance of a slot and the key that made it."""
    if living is not None and record is not None:
        return living, record.key
    if record is not None and this_boot:
        ours = [one for one in heads if one.marker.key == record.key]
        if record.state is SlotState.SPAWNING and ours:
            return ours[0].stat, record.key  # the first of them: whatever it started came later
        heads = [one for one in heads if one.marker.key != record.key]
    if not heads:
        return None, ""
    newest = heads[-1].marker.key
    first = next(one for one in heads if one.marker.key == newest)
    return first.stat, newest


def _others(leader: Stat, key: str, heads: list[Marked]) -> tuple[Marked, ...]:
    """The first process of every other key that lives in the slot."""
    found: dict[str, Marked] = {}
    for one in heads:
        if one.marker.key != key and one.stat.id != leader.id:
            found.setdefault(one.marker.key, one)
    return tuple(found.values())


def _counts(file: SlotRecord | Unreadable | None, *, this_boot: bool, empty: bool) -> bool:
    """Whether a slot without a live instance is still a slot.  `empty`: nothing at all is left of its processes."""
    match file:
        case None:
            return False
        case Unreadable():
            return True
    if file.state in _TAKEN_AWAY and this_boot:
        return not empty  # where all of it is gone, the taking away is done but for the paperwork
    return not (file.state is SlotState.SPAWNING and file.fresh)


def _presence(files: ServiceFiles, slots: tuple[SlotView, ...]) -> tuple[Presence, str, str]:
    counted = [slot for slot in slots if slot.counts]
    if counted:
        this_boot = any(slot.this_boot for slot in counted)
        return (Presence.STARTED if this_boot else Presence.NOT_SINCE_BOOT), "", ""
    match files.emptied:
        case Unreadable(reason):
            return Presence.STOPPED_BY_US, "", reason
        case None:
            pass
        case emptied:
            by_stop = emptied.by is EmptiedBy.STOP
            return (Presence.STOPPED_BY_US, emptied.key, "") if by_stop else (Presence.STARTED, "", "")
    ended = [slot.record for slot in slots if slot.record is not None and slot.record.state in _TAKEN_AWAY]
    stopped = [record for record in ended if record.state is SlotState.STOPPING]
    if stopped:
        return Presence.STOPPED_BY_US, stopped[0].ended_by, ""
    return (Presence.STARTED if ended else Presence.NEVER_STARTED), "", ""
