"""The product's words for kinds, states and verdicts, as sentences rather than as identifiers.

One place, so that `status`, `explain`, the lists and the screen of `up` say the same thing.  A dry run says "would"
everywhere; an outcome that nobody knows is called unknown, never failed and never done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "TONES",
    "act",
    "asked_for",
    "counted",
    "done_words",
    "freeze_words",
    "state_of",
    "status_word",
    "verdict_word",
    "work_kind",
]

_VERBS = {  # kind → infinitive, past
    "restart_service": ("restart", "restarted"),
    "scale_service": ("scale", "scaled"),
    "stop_service": ("stop", "stopped"),
    "start_service": ("start", "started"),
    "deploy_service": ("deploy", "deployed"),
    "rollback_service": ("roll back", "rolled back"),
}
_STATUS = {
    "recovery_pending": "outcome unknown",
    "proposed": "proposed, not accepted yet",
    "intent_accepted": "accepted",
    "observed": "seen once",
    "verified": "seen to hold",
    "pending": "waiting for approval",
    "queue_approval": "waits for approval",
    "allow": "allowed",
    "allow_notify": "allowed, people told",
    "deny": "denied",
    "prepared": "about to begin",
    "closed": "carried out",
    "voided": "not carried out",
    "executed": "done",
    "succeeded": "done",
    "dead": "given up",
    "leased": "in hand",
}
_WORK = {"approved_action": "carry out an approved action", "deploy_watch": "watch a service after a change"}
TONES = {
    "up": "good",
    "degraded": "warn",
    "down": "bad",
    "unknown": "warn",
    "allowed": "good",
    "allowed, people told": "good",
    "denied": "bad",
    "failed": "bad",
    "done": "good",
    "outcome unknown": "warn",
    "waits for approval": "warn",
    "waiting for approval": "warn",
    "given up": "bad",
    "rejected": "bad",
    "not carried out": "bad",
}


def act(kind: object) -> str:
    """`restart_service` → `restart`; a kind of somebody else stays as it is."""
    return _VERBS.get(str(kind), (str(kind), ""))[0]


def _object(kind: object, target: object, params: Mapping[str, Any]) -> str:
    """What an action is about: `web`, `web#1`, `web to 3 replicas`."""
    said = str(target)
    replica, replicas = params.get("replica"), params.get("replicas")
    if replica is not None:
        said += f"#{replica}"
    known = {"replica"}
    if type(replicas) is int:  # of somebody else's kind it may be anything
        known.add("replicas")
        joined = "with" if kind == "start_service" else "to"
        said += f" {joined} {counted(replicas, 'replica')}"
    extra = [f"{name} {value}" for name, value in params.items() if name not in known]
    return f"{said} ({', '.join(extra)})" if extra else said


def asked_for(item: Mapping[str, Any]) -> str:
    """A request in words: `restart web#1`, `scale web to 3 replicas`, with "would" where it is a dry run."""
    verb = act(item.get("kind"))
    words = f"{verb} {_object(item.get('kind'), item.get('target'), item.get('params') or {})}"
    return f"would {words} (dry run)" if item.get("dry_run") else words


def done_words(item: Mapping[str, Any], *, replica: object = None) -> str:
    """An execution in words, without its target: `restarted`, `would restart (dry run)`, `restart failed: code`."""
    kind, state = str(item.get("kind")), item.get("state")
    verb, past = _VERBS.get(kind, (kind, f"{kind} done"))
    which = "" if replica is None else f" #{replica}"
    if item.get("dry_run") or state == "simulated":
        return f"would {verb}{which} (dry run)"
    if state == "recovery_pending":
        return f"{verb}{which}: outcome unknown"
    if item.get("ok"):
        return past + which
    code = item.get("code")
    return f"{verb}{which} failed" + (f" ({code})" if code else "")


def state_of(service: Mapping[str, Any]) -> str:
    """A service's status; one that is gone as it is declared is stopped, not up."""
    total = (service.get("observed") or {}).get("total")
    gone = service["status"] == "up" and service["desired"]["state"] == "stopped" and total == 0
    return "stopped" if gone else str(service["status"])


def status_word(state: object) -> str:
    """A stored state in plain words; those that are plain already stay."""
    return _STATUS.get(str(state), str(state).replace("_", " "))


def verdict_word(verdict: object) -> str:
    return status_word(verdict)


def work_kind(kind: object) -> str:
    return _WORK.get(str(kind), str(kind).replace("_", " "))


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 service`, `3 services`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def freeze_words(item: Mapping[str, Any], until: str) -> str:
    """A freeze as a sentence: who, why, until when (already localised)."""
    reason = f": {item['reason']}" if item.get("reason") else ""
    end = f", until {until}" if until else ", until it is lifted"
    value = item.get("value")
    what = f" ({item.get('scope')} {value})" if value else ""
    return f"frozen by {item.get('owner')}{what}{reason}{end} ({item.get('id')})"
