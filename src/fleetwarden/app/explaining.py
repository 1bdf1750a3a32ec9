"""Explain: which rule, which numbers and which evidence led to what was done, or was not.

It asks the same gate rules again on what was last seen, in a read transaction that writes nothing, so that the answer
is about now; and it shows the last decision as it stands in the ledger.  Every refusal ends with what would satisfy it.
"""

from __future__ import annotations

from fleetwarden.app import views
from fleetwarden.app.fleet_views import FleetViews
from fleetwarden.app.held import released_by
from fleetwarden.app.identity import Caller, Role, require
from fleetwarden.app.rule_texts import rule_text
from fleetwarden.controllers.gate import rule_on
from fleetwarden.controllers.reconciler import request_for
from fleetwarden.controllers.restraint import Held, Restraint
from fleetwarden.controllers.wishes import as_asked
from fleetwarden.domain.actions import ActionDecision, ActionRequest, Source, Verdict
from fleetwarden.domain.convergence import Need, Rest, converge
from fleetwarden.domain.errors import NotFound
from fleetwarden.domain.fleet import DesiredState, ObservedService, Service
from fleetwarden.domain.identifiers import JsonValue, rfc3339
from fleetwarden.domain.policy import Ruling
from fleetwarden.domain.scaling_block import PolicyType, Rules, ScalingBlock, Select, Step
from fleetwarden.ports.configuration import ConfigurationSource
from fleetwarden.ports.stores import Store, Tx

__all__ = ["Explaining"]


class Explaining:
    def __init__(
        self, store: Store, configuration: ConfigurationSource, fleet: FleetViews, restraint: Restraint
    ) -> None:
        self._restraint = restraint
        self._store = store
        self._configuration = configuration
        self._fleet = fleet

    def explain(self, caller: Caller, name: str) -> dict[str, JsonValue]:
        """Why a service stands where it stands.  Raises NotFound."""
        require(caller, Role.VIEWER)
        item = self._fleet.service(caller, name)
        files = self._configuration.current()
        service = self._store.read(lambda tx: as_asked(tx, files)).last_good_fleet.services.get(name)
        if service is None:
            raise NotFound(f"no service {name!r} in the registry")
        seen = self._fleet.seen(name, self._store.read(lambda tx: tx.now()))
        need = converge(service, seen)
        file = self._configuration.freeze_file()
        ruling, last, standing_decision = self._store.read(lambda tx: self._ask(tx, service, seen, need, file))
        off = [] if self._fleet.facts.reconciler_on else ["the reconciler is on (FLEET_RECONCILER=1)"]
        answer: dict[str, JsonValue] = {
            "service": name,
            "at": item["at"],
            "status": item["status"],
            "desired": item["desired"],
            "observed": item["observed"],
            "instances": item["instances"],
            "evidence": _evidence(seen, last),
            "decision": self._told(last),
            "signals": _signals(item),
            "scaling": item["scaling"],
            "intent": item["intent"],
            "last_action": item["last_action"],
            "open_action": item["open_action"],
            "approval": item["approval"],
            "overrides": item["overrides"],
            "foreign": item["foreign"],
            "notes": item["notes"],
        }
        held = self._store.read(lambda tx: self._held(tx, service, seen, need))
        if held is not None:
            return {
                **answer,
                "verdict": "nothing",
                "reason": held.reason,
                "proposed": None,
                "limits": [],
                "would_change_if": released_by(held, service),
            }
        # A plane that is not ready has not looked since: what it saw last says nothing about now.
        unready = item["reason_code"] == "not_ready"
        if unready or ruling is None or not isinstance(need, Need):
            scaled = item["scaling"] is not None and not isinstance(need, Need)
            reason = item["reason"] if unready or scaled or isinstance(need, Need) else need.reason
            if off and not unready and isinstance(need, Rest):
                reason = f"{need.reason}; the reconciler is off, so it is looked at and nothing more"
            return {
                **answer,
                "verdict": "nothing",
                "reason": reason,
                "proposed": None,
                "limits": _scaling_limits(service) if scaled else [],
                "would_change_if": _scaling_would_change(item, service) if scaled else [],
            }
        return {
            **answer,
            "verdict": ruling.verdict.value,
            "reason": ruling.reason,
            "proposed": {"kind": need.kind.value, "params": dict(need.params), "reason": need.reason},
            "decision": self._told(standing_decision or last),
            "now": {
                "code": ruling.code,
                "rule": ruling.rule,
                "rule_source": ruling.rule_source,
                "numbers": ruling.numbers,
            },
            "limits": _limits(ruling),
            "would_change_if": [*off, *_would_change(ruling, item, name, need.kind.value)],
        }

    def _held(self, tx: Tx, service: Service, seen: ObservedService | None, need: object) -> Held | None:
        """Whether a pass would leave the need alone for now."""
        if not isinstance(need, Need) or seen is None:
            return None
        fleet = as_asked(tx, self._configuration.current()).last_good_fleet.services
        around = {name: self._fleet.seen(name, tx.now()) for name in service.depends_on}
        known = {name: one for name, one in around.items() if one is not None}
        request = self._request(need, service, seen)
        return self._restraint.one(tx, request, fleet, known)

    def _told(self, one: ActionDecision | None) -> JsonValue:
        """A decision, with the text of its rule as it was then."""
        if one is None:
            return None
        return {**_decision(one), "rule_text": self._store.read(lambda tx: rule_text(tx, one))}

    def _request(self, need: Need, service: Service, seen: ObservedService) -> ActionRequest:
        return request_for(
            need,
            service,
            seen,
            key="explain",
            source=Source.RECONCILER,
            by="reconciler",
            acting=self._fleet.facts.acting,
        )

    def _ask(
        self, tx: Tx, service: Service, seen: ObservedService | None, need: object, freeze_file: str
    ) -> tuple[Ruling | None, ActionDecision | None, ActionDecision | None]:
        last = tx.decisions.latest_by_target([service.name]).get(service.name)
        if not isinstance(need, Need) or seen is None:
            return None, last, None
        request = self._request(need, service, seen)
        ruling = rule_on(tx, self._configuration.current(), freeze_file, request)
        return ruling, last, tx.decisions.latest(need.kind, service.name, Source.RECONCILER)


def _evidence(seen: ObservedService | None, last: ActionDecision | None) -> list[JsonValue]:
    told: list[JsonValue] = []
    if seen is not None:
        told.append(
            {
                "what": "last observation",
                "status": seen.status.value,
                "ready": seen.ready,
                "existing": seen.existing,
                "total": seen.total,
                "detail": seen.detail,
                "seen_by": seen.source,
                "observed_at": rfc3339(seen.observed_at),
                "since": rfc3339(seen.since),
            }
        )
    if last is not None:
        told.append({"what": f"evidence of {last.id}", **views.decision(last)["evidence"]})
    return told


def _decision(one: ActionDecision) -> views.Item:
    full = views.decision(one)
    kept = ("id", "at", "kind", "params", "verdict", "code", "rule", "numbers", "reason", "approval_id", "action_id")
    return {**{key: full[key] for key in kept}, "source": one.rule_source, "policy_digest": one.policy_digest}


def _limits(ruling: Ruling) -> list[JsonValue]:
    return [{"limit": name, "numbers": value} for name, value in ruling.numbers.items()]


def _would_change(ruling: Ruling, item: views.Item, name: str, kind: str) -> list[str]:
    """What would satisfy a refusal, in words that end in a command or a time."""
    if ruling.verdict in (Verdict.ALLOW, Verdict.ALLOW_NOTIFY):
        return []
    told = {
        "freeze": [
            (
                "the freeze ends (fleetwarden freeze off, for that of a part with its --group, --service or --kind; "
                "or the FREEZE file is removed)"
            )
        ],
        "tier": [f"a rule in the policy gives {kind} on {name} another tier"],
        "rate": [f"the time is after {_next_slot(ruling)}"],
        "window": [f"the maintenance window is open (next at {_number(ruling, 'window', 'opens_at')})"],
        "storm": ["the storm ends (by itself after 5 calm minutes, or: fleetwarden storm clear --reason …)"],
        "structure": ["the request is well-formed"],
        "error": ["the policy overrides can be read again (fleetwarden status names the problem)"],
    }.get(ruling.code, [])
    if ruling.verdict is Verdict.QUEUE_APPROVAL:
        waiting = item["approval"]
        told = [
            f"a person grants it (fleetwarden approvals grant {waiting['short_id']})"
            if waiting
            else "a person grants it",
            *told,
        ]
    return told


def _signals(item: views.Item) -> list[JsonValue]:
    return [] if item["scaling"] is None else list(item["scaling"]["signals"])


def _scaling_limits(service: Service) -> list[JsonValue]:
    """The limits of the block that hold now, in its own words."""
    block = service.scaling
    if block is None:
        return []
    found: list[JsonValue] = [
        {"limit": "bounds", "numbers": {"min": block.min, "max": block.max}},
        {"limit": "cooldown", "numbers": {"up_s": block.cooldown_up_s, "down_s": block.cooldown_down_s}},
    ]
    if block.behavior is not None:  # it takes the place of samples, steps, deadband and window
        up, down = block.behavior.up, block.behavior.down
        windows: JsonValue = {"up_s": up.window_s, "down_s": down.window_s}
        tolerances: JsonValue = {"up": up.tolerance, "down": down.tolerance}
        return [
            *found,
            {"limit": "window", "numbers": windows},
            {"limit": "tolerance", "numbers": tolerances},
            {"limit": "rates", "numbers": {"up": _rates(up), "down": _rates(down)}},
        ]
    found += [
        {"limit": "samples", "numbers": {"up": block.up_samples, "down": block.down_samples}},
        {"limit": "step", "numbers": {"up": _step(block.up_step), "down": _step(block.down_step)}},
        {"limit": "deadband", "numbers": {"share": block.deadband}},
    ]
    if block.window_s:
        found.append({"limit": "window", "numbers": {"up_s": block.window_s, "down_s": block.window_s}})
    return found


def _step(step: Step) -> JsonValue:
    return f"{step.amount}%" if step.percent else step.amount


def _rates(rules: Rules) -> JsonValue:
    """What one direction of `behavior` allows, in words."""
    if rules.select is Select.DISABLED:
        return "none"
    told = [
        f"{one.value}{'%' if one.type is PolicyType.PERCENT else ''} per {one.period_s} s" for one in rules.policies
    ]
    return told[0] if len(told) == 1 else f"{rules.select.value.lower()} of {', '.join(told)}"


def _scaling_would_change(item: views.Item, service: Service) -> list[str]:
    """What would let the count change, in words that end in a time or a command."""
    told, block = item["scaling"], service.scaling
    assert block is not None
    code = told["code"]
    if code == "skip_cooldown" and told["until"]:
        return [f"the time is after {told['until']}"]
    if code == "waiting_for_approval" and item["approval"]:
        return [f"a person grants it (fleetwarden approvals grant {item['approval']['short_id']})"]
    if code in ("skip_metrics", "blocked_down"):
        return ["every signal has a fresh sample (fleetwarden signals check)"]
    if code == "stabilizing":
        needed = block.up_samples if told["streak"] == "up" else block.down_samples  # a stored row does not say
        needed = 1 if block.behavior is not None else needed
        left = max(1, needed - told["samples"])
        return [f"{left} more sample{'' if left == 1 else 's'} in a row say the same"]
    if code == "skip_override" and service.desired is DesiredState.STOPPED:
        return ["it is to be running again (desired: running, or its override is cleared)"]
    if code == "skip_override":
        return [f"the override ends (fleetwarden override clear {service.name})"]
    if code in ("at_max", "at_min"):
        bound = "max" if code == "at_max" else "min"
        return [f"scaling.{bound} is another one, or the load is (min {block.min}, max {block.max})"]
    if code in ("deadband", "at_target"):
        signals = ", ".join(f"{one.signal} leaves {one.target:g} a replica" for one in block.signals)
        return [f"{signals} by more than {_slack(block)}"]
    return []


def _slack(block: ScalingBlock) -> str:
    """How far the load may be off before anything is asked for."""
    if block.behavior is None:
        return f"{block.deadband:.0%}"
    up, down = block.behavior.up.tolerance, block.behavior.down.tolerance
    return f"{up:.0%}" if up == down else f"{up:.0%} upwards or {down:.0%} downwards"


def _number(ruling: Ruling, block: str, key: str) -> JsonValue:
    found = ruling.numbers.get(block)
    return found.get(key) if isinstance(found, dict) else None


def _next_slot(ruling: Ruling) -> str:
    return str(_number(ruling, "rate", "next_slot_at") or "the limit is raised: it allows none")
