"""Whose processes are these: slot files and live processes brought together, without any process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwarden.adapters.substrates.process import census
from fleetwarden.adapters.substrates.process.proc import Marked, Marker, ProcessId, ProcessTable, Stat
from fleetwarden.adapters.substrates.process.slots import (
    Emptied,
    EmptiedBy,
    ServiceFiles,
    SlotRecord,
    SlotState,
    Unreadable,
)
from fleetwarden.domain.fleet import Presence

BOOT = "this-boot"


def stat(pid: int, ticks: int = 0, *, session: int = 0, group: int = 0, state: str = "S", threads: int = 1) -> Stat:
    """A process that leads its own session unless told otherwise; by default its start time follows its pid."""
    return Stat(pid, ticks or pid * 10, 1, group or session or pid, session or pid, state, threads)


def marked(one: Stat, key: str = "k1", *, slot: int = 0) -> Marked:
    return Marked(one, Marker("f", "web", slot, key))


def record(**fields: object) -> SlotRecord:
    settings: dict[str, object] = {"service": "web", "index": 0, "state": SlotState.RUNNING, "key": "k1", "boot": BOOT}
    return SlotRecord(**(settings | fields))  # type: ignore[arg-type]


def running(one: Stat, **fields: object) -> SlotRecord:
    return record(pid=one.pid, ticks=one.ticks, **fields)


def take(
    slots: Mapping[int, SlotRecord | Unreadable] | None = None,
    stats: Sequence[Stat] = (),
    marks: Sequence[Marked] = (),
    *,
    emptied: Emptied | Unreadable | None = None,
    spawning: Sequence[int] = (),
) -> census.Census:
    table = ProcessTable([*stats, *(one.stat for one in marks)], marks)
    return census.take("web", ServiceFiles(slots or {}, emptied), table, boot=BOOT, spawning=spawning)


def only(taken: census.Census) -> census.SlotView:
    (slot,) = taken.slots
    return slot


def test_nothing_written_down_and_nothing_alive_is_never_started() -> None:
    taken = take()
    assert (taken.slots, taken.presence) == ((), Presence.NEVER_STARTED)


def test_the_recorded_process_is_the_instance_if_pid_and_start_time_agree() -> None:
    leader = stat(50)
    slot = only(take({0: running(leader)}, [leader]))
    assert (slot.leader, slot.leader_key, slot.counts, slot.is_recorded) == (leader, "k1", True, True)


def test_another_process_with_the_recorded_pid_is_not_the_instance() -> None:
    slot = only(take({0: running(stat(50, ticks=1))}, [stat(50, ticks=2)]))
    assert (slot.leader, slot.leftovers, slot.counts) == (None, (), True)


def test_a_zombie_is_dead() -> None:
    zombie = stat(50, state="Z")
    assert only(take({0: running(zombie)}, [zombie])).leader is None


def test_a_process_whose_first_thread_has_ended_still_runs() -> None:
    half = stat(50, state="Z", threads=3)
    assert only(take({0: running(half)}, [half])).leader == half


def test_the_recorded_process_of_an_earlier_boot_is_dead_whatever_runs_under_its_pid() -> None:
    leader = stat(50)
    taken = take({0: running(leader, boot="earlier")}, [leader])
    assert only(taken).leader is None
    assert taken.presence is Presence.NOT_SINCE_BOOT


def test_one_slot_of_this_boot_makes_the_service_started() -> None:
    taken = take({0: running(stat(50), boot="earlier"), 1: running(stat(51), index=1)})
    assert (taken.presence, len(taken.counted)) == (Presence.STARTED, 2)


@pytest.mark.req("ACT-3")
def test_a_plan_is_completed_by_the_process_that_carries_its_key() -> None:
    first, child_of_it = stat(50), stat(60)
    plan = record(state=SlotState.SPAWNING, fresh=True)
    slot = only(take({0: plan}, marks=[marked(child_of_it), marked(first)]))
    assert (slot.leader, slot.leader_key, slot.is_recorded, slot.others) == (first, "k1", False, ())


def test_a_fresh_plan_that_came_to_nothing_is_no_slot() -> None:
    taken = take({0: record(state=SlotState.SPAWNING, fresh=True)})
    assert (taken.counted, taken.presence) == ((), Presence.NEVER_STARTED)


def test_a_fresh_plan_counts_while_this_plane_makes_its_process() -> None:
    taken = take({0: record(state=SlotState.SPAWNING, fresh=True)}, spawning=[0])
    assert (len(taken.counted), taken.presence) == (1, Presence.STARTED)


def test_a_plan_for_a_slot_that_had_a_process_is_a_dead_slot() -> None:
    taken = take({0: record(state=SlotState.SPAWNING)})
    assert (len(taken.counted), taken.presence) == (1, Presence.STARTED)


def test_what_outlives_its_leader_under_the_same_key_is_left_over_and_not_the_instance() -> None:
    daemon, worker = stat(60), stat(61, session=50)
    slot = only(take({0: running(stat(50))}, marks=[marked(daemon), marked(worker)]))
    assert slot.leader is None
    assert set(slot.leftovers) == {daemon, worker}


def test_a_process_made_later_under_another_key_takes_the_place_of_a_dead_one() -> None:
    later = stat(60)
    slot = only(take({0: running(stat(50))}, marks=[marked(later, "k2")]))
    assert (slot.leader, slot.leader_key, slot.is_recorded) == (later, "k2", False)


def test_two_live_processes_of_one_slot_are_both_reported() -> None:
    ours, other = stat(50), stat(60)
    slot = only(take({0: running(ours)}, [ours], [marked(ours), marked(other, "k2")]))
    assert slot.leader == ours
    assert [one.stat for one in slot.others] == [other]


def test_without_a_file_the_newest_marked_process_is_the_instance_and_the_older_one_is_reported() -> None:
    older, newer = stat(50), stat(60)
    slot = only(take(marks=[marked(older, "k1"), marked(newer, "k2")]))
    assert (slot.leader, [one.stat for one in slot.others], slot.counts) == (newer, [older], True)


def test_an_unreadable_file_is_a_slot_that_is_not_known_to_be_dead() -> None:
    taken = take({0: Unreadable("half a file")})
    assert (len(taken.counted), only(taken).leader, taken.presence) == (1, None, Presence.STARTED)


def test_behind_an_unreadable_file_a_process_is_found_by_its_marker() -> None:
    leader = stat(50)
    assert only(take({0: Unreadable("half a file")}, marks=[marked(leader)])).leader == leader


def test_a_slot_that_was_being_stopped_is_gone_once_its_process_is() -> None:
    taken = take({0: record(state=SlotState.STOPPING, ended_by="k9", pid=50, ticks=1)})
    assert (taken.counted, taken.presence, taken.stop_key) == ((), Presence.STOPPED_BY_US, "k9")


def test_a_slot_that_was_being_stopped_is_not_gone_while_anything_of_it_is_left() -> None:
    rest = stat(61, session=50)
    taken = take({0: record(state=SlotState.STOPPING, ended_by="k9", pid=50, ticks=1)}, marks=[marked(rest)])
    assert (len(taken.counted), taken.presence, taken.stop_key) == (1, Presence.STARTED, "")


def test_a_slot_whose_process_ended_with_the_machine_was_not_ended_by_its_stop() -> None:
    taken = take({0: record(state=SlotState.STOPPING, ended_by="k9", pid=50, ticks=1, boot="earlier")})
    assert (taken.presence, taken.stop_key) == (Presence.NOT_SINCE_BOOT, "")


@pytest.mark.parametrize(
    ("by", "presence", "key"),
    [(EmptiedBy.STOP, Presence.STOPPED_BY_US, "k9"), (EmptiedBy.SCALE, Presence.STARTED, "")],
)
def test_what_emptied_a_service_stays_known(by: EmptiedBy, presence: Presence, key: str) -> None:
    taken = take(emptied=Emptied(by=by, key="k9", at=1))
    assert (taken.presence, taken.stop_key, taken.doubt) == (presence, key, "")


def test_slots_outrank_an_older_note_that_there_are_none() -> None:
    leader = stat(50)
    taken = take({0: running(leader)}, [leader], emptied=Emptied(by=EmptiedBy.STOP, key="k9", at=1))
    assert (taken.presence, taken.stop_key) == (Presence.STARTED, "")


def test_an_unreadable_note_is_a_doubt_and_no_answer() -> None:
    assert take(emptied=Unreadable("torn")).doubt == "torn"


def test_a_family_is_whoever_carries_the_marker_and_the_whole_session_of_a_proven_leader() -> None:
    leader, bare = stat(50), stat(51, session=50)  # bare: its environment was cleaned
    stranger = stat(70)
    table = ProcessTable([leader, bare, stranger], [marked(leader)])
    assert set(census.family("web", 0, leader.id, table)) == {leader.id, bare.id}


def test_a_session_whose_leader_is_gone_is_proven_by_a_marked_process_in_it() -> None:
    worker, bare = stat(51, session=50), stat(52, session=50)
    table = ProcessTable([worker, bare], [marked(worker)])
    assert set(census.family("web", 0, ProcessId(50, 500), table)) == {worker.id, bare.id}


def test_a_copied_marker_does_not_draw_in_the_rest_of_a_persons_session() -> None:
    shell, copied = stat(90), stat(91, session=90)
    table = ProcessTable([shell, copied], [marked(copied)])
    assert set(census.family("web", 0, ProcessId(50, 500), table)) == {copied.id}


def test_a_session_whose_number_was_used_again_is_not_ours() -> None:
    stranger, friend = stat(50, ticks=999), stat(51, session=50)
    table = ProcessTable([stranger, friend], [])
    assert census.family("web", 0, ProcessId(50, 500), table) == {}


pids = st.integers(2, 40)
processes = st.builds(
    lambda pid, ticks, session, state: Stat(pid, ticks, 1, session, session, state, 1),
    pids, st.integers(1, 5), pids, st.sampled_from("SRZ"),
)  # fmt: skip
files = st.one_of(
    st.just(Unreadable("x")),
    st.builds(
        lambda state, key, pid, ticks, boot, fresh: record(
            state=state, key=key, pid=pid, ticks=ticks, boot=boot, fresh=fresh
        ),
        st.sampled_from(SlotState), st.sampled_from(["k1", "k2"]), pids, st.integers(1, 5),
        st.sampled_from([BOOT, "earlier"]), st.booleans(),
    ),
)  # fmt: skip


@given(
    st.lists(processes, max_size=8, unique_by=lambda one: one.pid),
    st.lists(st.tuples(st.booleans(), st.sampled_from(["k1", "k2", "k3"])), min_size=8, max_size=8),
    st.one_of(st.none(), files),
)
def test_whatever_is_called_ours_is_proven_by_file_or_by_marker(stats, marks, file) -> None:
    carried = [marked(one, key) for one, (yes, key) in zip(stats, marks, strict=False) if yes and one.lives]
    taken = take({} if file is None else {0: file}, stats, carried)
    proven = {one.stat.id for one in carried}
    if isinstance(file, SlotRecord) and file.boot == BOOT and file.process is not None:
        proven.add(file.process)
    sessions = {one.pid for one in proven}
    for slot in taken.slots:
        claimed = [slot.leader, *(one.stat for one in slot.others), *slot.leftovers]
        for one in filter(None, claimed):
            assert one.lives
            assert one.id in proven or one.session in sessions
        assert slot.leader is None or slot.leader.id in proven
        assert slot.counts or slot.leader is None


@given(st.lists(processes, max_size=8, unique_by=lambda one: one.pid), st.one_of(st.none(), files))
def test_the_same_files_and_processes_always_give_the_same_census(stats, file) -> None:
    slots = {} if file is None else {0: file}
    assert take(slots, stats) == take(slots, list(reversed(stats)))
