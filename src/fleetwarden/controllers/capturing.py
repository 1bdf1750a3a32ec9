"""Reading what an action is about to destroy, right before it: never a reason not to act.

The executor asks here between its last look and the fence, and keeps the answer in the transaction of the fence; so it
is there whatever becomes of the plane during the call.  Secrets are taken out before anything is kept.  Whatever goes
wrong here is noted in what is kept, and stops nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from fleetwarden.domain.actions import Kind, OutboxRecord
from fleetwarden.domain.errors import FleetError, Refused
from fleetwarden.domain.fleet import Service
from fleetwarden.domain.identifiers import SECOND, JsonValue, Micros, plain
from fleetwarden.domain.scrubbing import scrubbed
from fleetwarden.ports.evidence import EvidenceSource, InstanceEvidence
from fleetwarden.ports.stores import Store, Tx

__all__ = ["CAPTURED", "KEPT_FOR", "Capturing", "keep", "prune"]

log = structlog.get_logger(__name__)
CAPTURED = frozenset({Kind.RESTART, Kind.STOP, Kind.DEPLOY, Kind.ROLLBACK})
LINES_MAX = 100  # of one replica
BYTES_MAX = 16 * 1024  # of one replica
TOTAL_BYTES_MAX = 96 * 1024  # of the lines of all of them; twice that as JSON at the most
INSTANCES_MAX = 32
KEPT_FOR: Micros = 30 * 86_400 * SECOND


class Capturing:
    """Reads evidence by substrate; one without a source has none."""

    def __init__(self, sources: Mapping[str, EvidenceSource]) -> None:
        self._sources = dict(sources)

    def before(self, record: OutboxRecord, service: Service | None) -> Mapping[str, JsonValue] | None:
        """What is to be kept of this action's target, or None where nothing is destroyed.  Never raises."""
        request = record.request
        if request.kind not in CAPTURED or request.dry_run or service is None:
            return None
        source = self._sources.get(service.substrate)
        if source is None:
            return None
        only = frozenset({str(request.params["replica"])}) if "replica" in request.params else None
        try:
            found = source.capture(service, only, lines_max=LINES_MAX, bytes_max=BYTES_MAX)
            return _body(found)
        except FleetError as error:
            log.warning("evidence not captured", action=record.id, error=str(error))
            return {"instances": [], "problem": scrubbed(f"not captured: {error}")}
        except Exception as error:  # a source may be anybody's code
            log.exception("evidence not captured", action=record.id)
            return {"instances": [], "problem": scrubbed(f"not captured: {type(error).__name__}: {error}")}

    def last_lines(self, service: Service) -> Mapping[str, JsonValue]:
        """What its replicas wrote last, as it stands: the same bounded and scrubbed lines that an action keeps.

        `{instances, problem?}`.  Raises Refused where the substrate gives none, Retryable if nothing could be read.
        """
        source = self._sources.get(service.substrate)
        if source is None:
            raise Refused(f"what {service.name} writes is not read: its substrate gives none", code="no_output")
        return _body(source.capture(service, None, lines_max=LINES_MAX, bytes_max=BYTES_MAX))


def _body(found: Sequence[InstanceEvidence]) -> Mapping[str, JsonValue]:
    """Clean and small enough to be stored: of many replicas, each has fewer of its last lines."""
    kept = found[:INSTANCES_MAX]
    share = min(BYTES_MAX, TOTAL_BYTES_MAX // max(1, len(kept)))
    body: dict[str, JsonValue] = {"instances": [_clean(one, share) for one in kept]}
    if len(found) > len(kept):
        body["problem"] = f"{len(found) - len(kept)} more replicas are not captured"
    return body


def _clean(one: InstanceEvidence, bytes_max: int) -> dict[str, JsonValue]:
    """From the last line backwards, so that only what is kept is looked at."""
    kept: list[str] = []
    left = bytes_max
    for line in reversed(one.lines[-LINES_MAX:]):
        clean = scrubbed(line).encode(errors="replace")
        left -= len(clean) + 1
        if left < 0:
            break
        kept.append(clean.decode())
    return {
        **plain(one),
        "ended": scrubbed(one.ended),
        "lines": kept[::-1],
        "cut": one.cut or len(kept) < len(one.lines),
    }


def keep(tx: Tx, action_seq: int, body: Mapping[str, JsonValue] | None) -> None:
    """Keep it, in the transaction of the fence.  What the store refuses is left out, and nothing is stopped by it."""
    if body is None:
        return
    try:
        tx.captures.put(action_seq, body)
    except Refused as error:  # raised before any statement is sent
        log.warning("evidence not kept", action=action_seq, error=str(error))


def prune(store: Store) -> int:
    """Delete what has been kept for its time; an idle pass only reads.  Raises StoreUnavailable."""
    due = store.read(_due)
    return store.transact("prune_evidence", lambda tx: tx.captures.prune(tx.now() - KEPT_FOR)) if due else 0


def _due(tx: Tx) -> bool:
    oldest = tx.captures.oldest()
    return oldest is not None and oldest < tx.now() - KEPT_FOR
