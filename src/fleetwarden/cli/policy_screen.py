"""`policy explain` and `policy test` as people see them, and the same facts as JSON.  Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetwarden.cli.calling import Call
from fleetwarden.cli.wording import counted, verdict_word
from fleetwarden.domain.identifiers import plain

if TYPE_CHECKING:
    from fleetwarden.app.policy_trials import Tried
    from fleetwarden.domain.policy_explain import Considered, Explained

__all__ = ["show_explained", "show_tried"]

_COMPARED = {"same": "would say the same", "looser": "looser: would say", "stricter": "stricter: would say"}


def show_explained(call: Call, said: Explained, body: dict[str, Any]) -> None:
    """The ruling first, then every rule that matches, the deciding one first."""
    ruling = said.ruling
    if call.as_json:
        call.show_json(
            body
            | {
                "verdict": ruling.verdict.value,
                "code": ruling.code,
                "reason": ruling.reason,
                "rule": ruling.rule,
                "source": ruling.rule_source,
                "policy_digest": ruling.policy_digest,
                "numbers": dict(ruling.numbers),
                "considered": [plain(one) for one in said.considered],
            }
        )
        return
    request, screen = body["request"], call.screen
    about = [f"{name} {request[name]}" for name in ("group", "substrate", "source", "direction") if request.get(name)]
    about += [f"{name}={value}" for name, value in request.get("params", {}).items()]
    screen.line(f"{request['kind']} {request['target']} ({', '.join(about)})", indent=2)
    screen.line(f"{verdict_word(ruling.verdict.value)}: {ruling.reason}", indent=2)
    screen.line()
    for place, one in enumerate(said.considered, 1):
        _show_rule(call, place, one)
    if not body["overrides_of_a_plane"]:
        screen.line()
        screen.line("Files only: no override of a running plane was looked at, and no budget counts as used.", indent=2)


def _show_rule(call: Call, place: int, one: Considered) -> None:
    screen = call.screen
    screen.line(f"{place}. {one.source}  {one.rule}", indent=2, tone="good" if one.role == "decides" else "")
    screen.line(f"   {one.role}: {one.why}", indent=5)
    for name, limit in one.limits.items():
        screen.line(f"   {name} {_value(limit)}", indent=5)
    if one.role != "decides":
        told = _COMPARED[one.compared]
        screen.line(
            f"   {told} {one.verdict.value}, {one.reason}" if one.compared != "same" else f"   {told}", indent=5
        )


def _value(limit: Any) -> str:
    value, source = limit["value"], limit["source"]
    words = ", ".join(f"{name} {part}" for name, part in value.items()) if isinstance(value, dict) else str(value)
    return f"{words} ({source})"


def show_tried(call: Call, tried: Tried) -> None:
    """Each case that failed as FILE:LINE, then how many there were."""
    count = len(tried.passed) + len(tried.failed)
    if call.as_json:
        failed = [{"file": one.file, "line": one.line, "reason": one.reason} for one in tried.failed]
        call.show_json({"file": tried.file, "policy": tried.policy, "passed": list(tried.passed), "failed": failed})
        return
    for problem in tried.failed:
        call.screen.line(str(problem), indent=4)
    if tried.failed:
        call.screen.line(f"{len(tried.failed)} of {counted(count, 'case')} failed, by {tried.policy}", tone="bad")
    else:
        call.screen.line(f"{counted(count, 'case')} passed, by {tried.policy}", tone="good")
