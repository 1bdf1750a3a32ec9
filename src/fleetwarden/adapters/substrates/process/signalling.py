"""Signals, only ever to a process that is proven to be the one that is meant.

Right before every signal the process is pinned by a pidfd and its start time is compared: a pid that was reused since
it was looked up gets nothing.  What can never be a target, whatever anybody asks: pid 0 and 1, this process, its
parents, and everything in this process's own group or session.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterator
from typing import Protocol

from fleetwarden.adapters.substrates.process.proc import Stat, own_line, stat_of
from fleetwarden.domain.errors import Refused

__all__ = ["PosixSignaller", "Signaller", "may_signal", "open_pidfd"]

_PROCESS_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9 and later


class Signaller(Protocol):
    """Sends signals."""

    def send(self, process: Stat, number: int, *, group: bool) -> bool:
        """Signal that very process, or with `group` the whole process group that it leads.

        Returns whether it was sent; False if the process is gone.  Raises Refused: `self_target`, `not_permitted`.
        """


class PosixSignaller:
    """The real one.  `group_by_pidfd` false: as on a kernel that cannot signal a group through a pidfd."""

    def __init__(self, *, group_by_pidfd: bool = True) -> None:
        self._group_by_pidfd = group_by_pidfd

    def send(self, process: Stat, number: int, *, group: bool) -> bool:
        may_signal(process)
        try:
            with open_pidfd(process.pid) as pidfd:
                now = stat_of(process.pid)
                if now is None or now.id != process.id:
                    return False
                if group and now.group != now.pid:
                    return False  # it leads no group any more: a group signal would hit somebody else's
                self._deliver(process.pid, pidfd, number, group=group)
        except ProcessLookupError:
            return False
        except PermissionError as error:
            raise Refused(f"this plane may not signal pid {process.pid}", code="not_permitted") from error
        return True

    def _deliver(self, pid: int, pidfd: int | None, number: int, *, group: bool) -> None:
        if pidfd is not None and not group:
            signal.pidfd_send_signal(pidfd, number)
            return
        if pidfd is not None and self._group_by_pidfd:
            try:
                signal.pidfd_send_signal(pidfd, number, None, _PROCESS_GROUP)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self._group_by_pidfd = False
            else:
                return
        # The leader was seen alive under its own start time an instant ago; its group keeps its number reserved.
        if group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def may_signal(process: Stat) -> None:
    """Raise Refused (`self_target`) for what must never be signalled from here."""
    own_group, own_session = os.getpgrp(), os.getsid(0)
    if process.pid <= 1 or process.group <= 1:
        raise Refused(f"pid {process.pid} (group {process.group}) is the system's own", code="self_target")
    if process.pid in own_line():
        raise Refused(f"pid {process.pid} is this plane or one of its parents", code="self_target")
    if process.group == own_group or process.session == own_session:
        raise Refused(f"pid {process.pid} is in this plane's own process group or session", code="self_target")


@contextlib.contextmanager
def open_pidfd(pid: int) -> Iterator[int | None]:
    """A descriptor that pins `pid`; None where the kernel has none.  Raises ProcessLookupError if it is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (OSError, AttributeError):  # an old kernel, a sandbox, or no descriptor left
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
