"""Whether a request is well formed at all, before any rule is asked.

A malformed request must never reach a rule, an approval or an actuator: a count that is text, a missing count that
somebody might read as one, a target that is a pattern, parameters too long to be stored whole.  Each known kind has a
closed table of typed parameters, and each of our own controllers a closed list of kinds that it may ask for.  An
outside requester may ask for kinds of its own, whose parameters are its own affair, but bounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches

from fleetwarden.domain.actions import KNOWN_KINDS, ActionRequest, Kind, Source
from fleetwarden.domain.identifiers import JsonValue, canonical_json

__all__ = ["MAX_PARAMS_BYTES", "MAX_REPLICAS", "OWN_KIND", "PLAIN_TARGET", "check", "is_irreversible", "may_ask"]

MAX_PARAMS_BYTES = 8192  # of the canonical JSON of all params
MAX_REPLICAS = 100_000
MAX_REPLICA_INDEX = MAX_REPLICAS - 1
MAX_TEXT = 512  # characters of one text parameter
MAX_TARGET = 256  # characters
OWN_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]{0,63}")  # names of an outside requester's own kinds
PLAIN_TARGET = re.compile(r"[A-Za-z0-9._/-]{1,256}")  # what nearly every target is: nothing else to look at
_GLOB_CHARS = frozenset("*?[]")

_SCALE, _DEPLOY = Kind.SCALE, Kind.DEPLOY  # looked up once: members of an enum are slow to reach
_TypeCheck = Callable[[JsonValue], str | None]


def check(request: ActionRequest) -> str | None:
    """Why `request` is malformed, naming the part and what would be right; None if it is well formed."""
    return _source_problem(request) or _target_problem(request) or _params_problem(request)


def may_ask(source: str, kind: str) -> bool:
    """Whether a request of this kind from this source can pass the check."""
    allowed = _MAY_ASK.get(source, frozenset())
    return allowed is None or kind in allowed


def is_irreversible(request: ActionRequest) -> bool:
    """Whether this very request cannot be undone: its kind's class, or a deploy that is marked so."""
    kind = request.kind
    return kind in IRREVERSIBLE_KINDS or (kind == _DEPLOY and request.params.get("irreversible") is True)


def _source_problem(request: ActionRequest) -> str | None:
    kind, source = request.kind, request.source
    if not isinstance(_as_given(source), str) or source not in _MAY_ASK:
        return f"unknown source {source!r}: one of {', '.join(Source)}"
    if not isinstance(_as_given(kind), str) or not (kind in KNOWN_KINDS or OWN_KIND.fullmatch(kind)):
        return f"{kind!r} is no kind: a letter, then at most 63 letters, digits or any of _ . : / -"
    allowed = _MAY_ASK[source]
    if allowed is not None:
        if kind in allowed:
            return None
        if kind in KNOWN_KINDS:
            return f"the {source} may not ask for {kind}, only for {', '.join(sorted(allowed))}"
        return f"the {source} may not ask for {kind!r}, a kind that fleetwarden does not know"
    return None


def _target_problem(request: ActionRequest) -> str | None:
    target = request.target
    if request.direction not in ("", "up", "down"):
        return f"direction {request.direction!r} is neither up nor down"
    if isinstance(_as_given(target), str) and PLAIN_TARGET.fullmatch(target):
        return None
    if not isinstance(_as_given(target), str) or not target.strip():
        return "the target is empty, and an empty selection selects nothing: name one target"
    if len(target) > MAX_TARGET:
        return f"the target has {len(target)} characters, the limit is {MAX_TARGET}"
    if not _GLOB_CHARS.isdisjoint(target):
        return f"target {target!r} is a pattern: an action is for one target, named exactly"
    if target != target.strip() or not target.isprintable():
        return f"target {target!r} has blanks around it or characters that cannot be printed"
    return None


def _params_problem(request: ActionRequest) -> str | None:
    params = request.params
    if not isinstance(_as_given(params), Mapping):
        return f"params are a mapping of names to values, not {type(params).__name__}"
    if params:
        size = len(canonical_json(params))
        if size > MAX_PARAMS_BYTES:
            return f"params take {size} bytes as JSON, the limit is {MAX_PARAMS_BYTES}"
    table = _PARAMS.get(request.kind)
    if table is None:
        return None
    for name, value in params.items():
        typed = table.get(name)
        if typed is None:
            return _unknown_param(request.kind, str(name), table)
        problem = typed(value)
        if problem:
            return f"param {name!r} of {request.kind} {problem}"
    return _missing_param(request)


def _as_given(value: object) -> object:
    """Records do not check their own types: here nothing is believed about them."""
    return value


def _unknown_param(kind: str, name: str, table: Mapping[str, _TypeCheck]) -> str:
    if not table:
        return f"{kind} takes no params, {name!r} was given"
    close = get_close_matches(name, table, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(table)}"
    return f"{kind} has no param {name!r} ({hint})"


def _missing_param(request: ActionRequest) -> str | None:
    kind, params = request.kind, request.params
    if kind == _SCALE and "replicas" not in params:
        return "scale_service needs the param 'replicas', a whole number of at least 0"
    if kind == _DEPLOY and not ("version" in params or "image" in params):
        return "deploy_service needs the param 'version' or 'image'"
    return None


def _whole(low: int, high: int) -> _TypeCheck:
    def problem(value: JsonValue) -> str | None:
        if type(value) is int and low <= value <= high:  # bool is an int to Python, never to us
            return None
        return f"is {_shown(value)}: a whole number from {low} to {high}"

    return problem


def _text(value: JsonValue) -> str | None:
    if isinstance(value, str) and value.strip() and len(value) <= MAX_TEXT:
        return None
    return f"is {_shown(value)}: text of 1 to {MAX_TEXT} characters"


def _number(value: JsonValue) -> str | None:
    if type(value) in (int, float) and math.isfinite(value):
        return None
    return f"is {_shown(value)}: a finite number"


def _flag(value: JsonValue) -> str | None:
    return None if isinstance(value, bool) else f"is {_shown(value)}: true or false"


def _direction(value: JsonValue) -> str | None:
    return None if value in ("up", "down") else f"is {_shown(value)}: up or down"


def _shown(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{type(value).__name__} of {len(text)} characters"


_COUNT = _whole(0, MAX_REPLICAS)
# The kinds that no later action undoes.  None of the product's own is one; a deploy can be marked so by its version.
IRREVERSIBLE_KINDS: frozenset[str] = frozenset()
# What each kind's actuator reads; a kind that is absent has free parameters.
_PARAMS: Mapping[str, Mapping[str, _TypeCheck]] = {
    Kind.RESTART: {"replica": _whole(0, MAX_REPLICA_INDEX)},
    Kind.SCALE: {
        "replicas": _COUNT,
        "from_replicas": _COUNT,
        "direction": _direction,
        "signal": _text,
        "value": _number,
        "target": _number,
    },
    Kind.STOP: {},
    Kind.START: {"replicas": _whole(1, MAX_REPLICAS)},
    Kind.DEPLOY: {"version": _text, "image": _text, "irreversible": _flag},
    Kind.ROLLBACK: {"version": _text},
}
# The kinds that each source may ask for; None: any.
_MAY_ASK: Mapping[str, frozenset[str] | None] = {
    Source.RECONCILER: frozenset({Kind.RESTART, Kind.SCALE, Kind.STOP, Kind.START, Kind.DEPLOY}),
    Source.AUTOSCALER: frozenset({Kind.SCALE}),
    Source.PLAYBOOK: frozenset({Kind.RESTART, Kind.INVESTIGATE, Kind.FAILURE_GAP}),
    Source.DEPLOY_WATCH: frozenset({Kind.ROLLBACK, Kind.SCALE}),
    Source.OPERATOR: None,
    Source.API: None,
}
