"""What people read of scaling: where a service stands, which controller consumes its block, and what is amiss.

The plane that ticks answers from its live columns; every other one reads the stored rows.  Nothing here evaluates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from fleetwarden.app import views
from fleetwarden.app.intent_views import intent_view
from fleetwarden.controllers.autoscaler_report import ServiceEvaluation
from fleetwarden.domain.errors import Problem
from fleetwarden.domain.fleet import Fleet, Service
from fleetwarden.domain.identifiers import JsonValue, rfc3339
from fleetwarden.domain.lifecycles import IntentState
from fleetwarden.domain.scaling import NATIVE
from fleetwarden.domain.signal_authority import Rejection
from fleetwarden.domain.signals import Definition
from fleetwarden.domain.tracking_columns import Reason
from fleetwarden.domain.unit_check import declared_problem
from fleetwarden.ports.autoscale_rows import AutoscaleRow
from fleetwarden.ports.intents import IntentRow

__all__ = ["ScalingViews", "evaluation_view"]

SOURCES_TOLD = 5  # by name; of more, how many
_AT_REST = frozenset({"follows_load", "count_not_ours", "as_declared", "intent_waits", "scaled_to_zero"})
_ON_ITS_WAY = (IntentState.PROPOSED, IntentState.INTENT_ACCEPTED, IntentState.RECOVERY_PENDING, IntentState.EXECUTED)


class ScalingViews:
    """`live`: this plane's own evaluation of a service, if it ticks; `problems`: of signals.yml; `stays`: what is in
    force in spite of them, in words; `declared`: what a signal of a service is declared as; `rejections`: pushed
    samples that were refused, by source and code."""

    def __init__(
        self,
        *,
        on: bool = False,
        live: Callable[[str], ServiceEvaluation | None] = lambda _: None,
        problems: Callable[[], Sequence[Problem]] = tuple,
        stays: Callable[[], str] = str,
        declared: Callable[[str, str], Definition | None] = lambda _service, _signal: None,
        rejections: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:
        self._declared = declared
        self._rejections = rejections
        self.on = on
        self._live = live
        self._problems = problems
        self._stays = stays

    def of(self, name: str, stored: Mapping[str, AutoscaleRow]) -> views.Item | None:
        """Where that service stands; None if nobody evaluated it."""
        live, row = self._live(name), stored.get(name)
        if live is not None and (row is None or row.at <= live.at):
            return evaluation_view(live)  # a newer row is another plane's, which ticks by now
        return None if row is None else _row_view(row)

    def add(
        self, item: views.Item, service: Service, stored: Mapping[str, AutoscaleRow], intent: IntentRow | None
    ) -> None:
        """Put what there is to say of a service's scaling into its view."""
        item["intent"] = None if intent is None else intent_view(intent)
        item["scaling"] = None
        block = service.scaling
        if block is None:
            return
        if not self.on:
            owner = "" if block.controller_mode == NATIVE else f"; {block.controller_mode} writes its count"
            warning = "no controller consumes the scaling block: the autoscaler is off (FLEET_AUTOSCALER=1)"
            item["scaling_warning"] = f"{service.source}: {warning}{owner}"
            return
        told = item["scaling"] = self.of(service.name, stored)
        if told is not None and item["reason_code"] in _AT_REST:
            item["reason"], item["reason_code"] = told["reason"], told["code"]
            item["retry_at"] = told["until"]

    def warnings(self, fleet: Fleet, *, reconciler_on: bool) -> list[str]:
        """What an operator should know before trusting that counts follow load."""
        told = [f"signals.yml is rejected, {self._stays()}: {one}" for one in self._problems()]
        told += self._units(fleet)
        told += self._unattested()
        native = any(one.scaling is not None for one in fleet.services.values())
        if self.on and native and not reconciler_on:
            told.append("the autoscaler is on and the reconciler is off: accepted intents wait (FLEET_RECONCILER=1)")
        return told

    def _units(self, fleet: Fleet) -> list[str]:
        """Targets that do not go with the unit that their signal is declared in."""
        return [
            f"{one.source}: scaling: signal {target.signal}: {wrong}: its count is held"
            for one in fleet.services.values()
            if one.scaling is not None
            for target in one.scaling.signals
            if (declared := self._declared(one.name, target.signal)) is not None
            and (wrong := declared_problem(declared.unit, target.target))
        ]

    def _unattested(self) -> list[str]:
        """Sources of pushed samples whose attestation failed since this plane started, the busiest first."""
        failed: Counter[str] = Counter()
        for (source, code), number in self._rejections().items():
            if code in (Rejection.ATTESTATION, Rejection.UNATTESTED):
                failed[source] += number
        told = [
            f"{number} pushed sample{'' if number == 1 else 's'} of source {source} had no attestation that holds"
            for source, number in failed.most_common(SOURCES_TOLD)
        ]
        more = len(failed) - len(told)
        return [*told, f"pushed samples of {more} more sources had none either"] if more else told


def evaluation_view(one: ServiceEvaluation) -> views.Item:
    """An evaluation of this plane."""
    return {
        "at": rfc3339(one.at),
        "code": one.code,
        "reason": one.reason,
        "current": one.current,
        "desired": one.desired,
        "raw": one.raw,
        "streak": one.streak,
        "samples": one.samples,
        "needed": one.needed,
        "until": rfc3339(one.until),
        "intent": one.intent or None,
        "observe_only": one.code == Reason.EXTERNAL.code,
        "signals": [dict(signal) for signal in one.signals],
        "limits": dict(one.limits),
    }


def _row_view(row: AutoscaleRow) -> views.Item:
    numbers: Mapping[str, JsonValue] = row.numbers
    return {
        "at": rfc3339(row.at),
        "code": row.reason,
        "reason": row.words,
        "current": row.current,
        "desired": row.desired,
        "raw": numbers.get("raw", row.current),
        "streak": {-1: "down", 0: "", 1: "up"}.get(row.streak, ""),
        "samples": row.count,
        "needed": 0,
        "until": rfc3339(row.until),
        "intent": None,
        "observe_only": row.reason == Reason.EXTERNAL.code,
        "signals": list(numbers.get("signals", ())),
        "limits": dict(numbers.get("limits", {})),
    }
