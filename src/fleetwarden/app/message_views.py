"""Messages to people as people ask about them: what was sent, what waits, and a test of one target."""

from __future__ import annotations

from collections.abc import Sequence

from fleetwarden.adapters.files.notify import NOTIFY, NotifyFile
from fleetwarden.app.checking_notify import notify_warnings
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.domain.errors import FleetError, NotFound
from fleetwarden.domain.identifiers import JsonValue, rfc3339
from fleetwarden.domain.messages import Delivery
from fleetwarden.domain.scrubbing import scrubbed
from fleetwarden.ports.notices import Channel, Message, TargetCount
from fleetwarden.ports.stores import Store

__all__ = ["Messages", "message_view"]


class Messages:
    """What can be asked about messages.  `sender`: how the plane calls itself."""

    def __init__(self, store: Store, file: NotifyFile, channel: Channel, sender: str) -> None:
        self._store = store
        self._file = file
        self._channel = channel
        self._sender = sender

    def overview(self, caller: Caller) -> dict[str, JsonValue]:
        """The targets and routes in force, what is wrong with a newer file, and how many messages stand where."""
        require(caller, Role.VIEWER)
        counts = self.counts()
        document = self._file.current()
        return {
            "targets": sorted(document.targets),
            "routes": [
                {"group": one.group or None, "severity": list(one.severity), "to": list(one.to)}
                for one in document.routes
            ],
            "problems": [str(one) for one in self._file.problems],
            "stays": self._file.stays if self._file.problems else None,
            "messages": [
                {"target": one.target, "state": one.state, "count": one.count, "oldest_at": rfc3339(one.oldest_at)}
                for one in counts
            ],
        }

    def warnings(self) -> list[str]:
        """What an operator should know about who is told what."""
        told = [f"{NOTIFY} is rejected, {self._file.stays}: {one}" for one in self._file.problems]
        return told + notify_warnings(self._file.current(), self._file.folder)

    def counts(self) -> Sequence[TargetCount]:
        """By target and state.  Raises StoreUnavailable."""
        return self._store.read(lambda tx: tx.deliveries.counts())

    def test(self, caller: Caller, target: str) -> dict[str, JsonValue]:
        """Send a test message to one target, now and once.  Raises NotFound; never for a delivery that failed."""
        require(caller, Role.OPERATOR)
        found = self._file.current().targets.get(target)
        if found is None:
            known = ", ".join(sorted(self._file.current().targets)) or "none"
            raise NotFound(f"no target {target!r} in notify.yml", hint=f"known: {known}")
        text = f"A test message from fleetwarden on {self._sender}, asked for by {caller.person}."
        try:
            self._channel.send(found, Message(severity="info", title="[info] test message", body=text))
        except FleetError as error:
            return {"target": target, "delivered": False, "error": scrubbed(str(error))}
        except Exception as error:  # noqa: BLE001 - a plug-in's own; its words may hold a secret and go to a person
            return {"target": target, "delivered": False, "error": scrubbed(f"{type(error).__name__}: {error}")}
        return {"target": target, "delivered": True, "error": None}


def message_view(one: Delivery) -> dict[str, JsonValue]:
    """One message as lists show it."""
    return {
        "id": one.id,
        "at": rfc3339(one.at),
        "target": one.target,
        "kind": one.kind,
        "subject": one.subject or None,
        "severity": one.severity,
        "state": one.state,
        "notices": one.count,
        "attempts": one.attempts,
        "next_at": rfc3339(one.not_before) if one.ended_at is None else None,
        "ended_at": None if one.ended_at is None else rfc3339(one.ended_at),
        "error": one.error or None,
        "lines": [{"at": rfc3339(line.at), "summary": line.summary, "count": line.count} for line in one.lines],
    }
