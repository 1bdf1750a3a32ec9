"""The honest account of one call: what was done, what was not and why, and what cannot be known.

Whatever happens, every effect that was begun is in the outcome.  `partial` means that something changed and something
did not; a refusal's own code means that nothing changed; unknown means that signals are on their way whose effect was
not seen.  Nothing here touches a process.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleetwarden.adapters.substrates.process.endings import Ending
from fleetwarden.domain.actions import Outcome
from fleetwarden.domain.errors import FleetError, NotCalled
from fleetwarden.domain.identifiers import JsonValue

__all__ = ["DEADLINE", "Account"]

DEADLINE = "deadline"  # the code of what was not begun because the time was up


class Account:
    """Collects what one call does to `service`."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._started: dict[int, int] = {}
        self._version = ""
        self._ended: list[int] = []
        self._killed: list[int] = []
        self._removed: list[int] = []
        self._remaining: list[int] = []
        self._notes: list[str] = []
        self._failures: list[tuple[str, str]] = []

    @property
    def failed(self) -> bool:
        """Whether something did not go as asked."""
        return bool(self._failures or self._remaining)

    @property
    def started(self) -> bool:
        """Whether any process was made."""
        return bool(self._started)

    def start(self, index: int, pid: int, version: str = "") -> None:
        """A process of that version was made for that slot."""
        self._started[index] = pid
        self._version = version

    def end(self, ending: Ending) -> None:
        """Processes were ended, or were meant to be."""
        self._ended += [pid for pid in ending.signalled if pid not in ending.remaining]
        self._killed += [pid for pid in ending.killed if pid not in ending.remaining]
        if ending.complete:
            return
        pids = _listed(ending.remaining)
        if ending.signalled:
            self._remaining += ending.remaining
        elif ending.trouble:
            self._failures.append(("not_permitted", ending.trouble))
        else:
            self._failures.append((DEADLINE, f"the deadline passed before pid {pids} could be ended"))

    def remove(self, indices: Iterable[int]) -> None:
        """These slots were taken away."""
        self._removed += indices

    def note(self, text: str) -> None:
        """Something that a reader should know, and that is no failure."""
        self._notes.append(text)

    def fail(self, error: FleetError) -> None:
        """One part could not be done, for that reason."""
        self._failures.append((error.code, str(error)))

    def late(self, what: str) -> None:
        """One part was not begun because the deadline had passed."""
        self._failures.append((DEADLINE, f"{what}: the deadline had passed"))

    def outcome(self, done: str) -> Outcome:
        """The result; `done` is the sentence for a call that did all it was asked.

        Raises NotCalled if nothing at all was begun because the deadline had passed.
        """
        changed = bool(self._started or self._ended or self._removed or self._remaining)
        if self._failures and not changed and all(code == DEADLINE for code, _ in self._failures):
            raise NotCalled("; ".join(reason for _, reason in self._failures))
        told = [done] if not self.failed else []
        told += [reason for _, reason in self._failures]
        if self._remaining:
            told.append(f"pid {_listed(self._remaining)} was signalled and had not ended when the time was up")
        told += self._deeds() + self._notes
        detail = "; ".join(told)
        if self._remaining:
            return Outcome(
                ok=False, unknown_outcome=True, code="still_ending", detail=detail, evidence=self._evidence()
            )
        if self._failures:
            code = "partial" if changed else self._failures[0][0]
            return Outcome(ok=False, code=code, detail=detail, evidence=self._evidence())
        return Outcome(ok=True, detail=detail, evidence=self._evidence())

    def _deeds(self) -> list[str]:
        deeds = []
        if self._ended:
            killed = f" ({_listed(self._killed)} needed SIGKILL)" if self._killed else ""
            deeds.append(f"ended pid {_listed(self._ended)}{killed}")
        if self._started:
            pairs = (f"{self._service}#{index} (pid {pid})" for index, pid in sorted(self._started.items()))
            deeds.append(f"started {', '.join(pairs)}")
        return deeds

    def _evidence(self) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {
            "started": {str(index): pid for index, pid in sorted(self._started.items())},
            "ended": sorted(self._ended),
            "killed": sorted(self._killed),
            "removed": sorted(self._removed),
            "remaining": sorted(self._remaining),
            "failures": [code for code, _ in self._failures],
            "version": self._version,
        }
        return {name: value for name, value in found.items() if value}


def _listed(pids: tuple[int, ...] | list[int]) -> str:
    return ", ".join(str(pid) for pid in sorted(pids))
