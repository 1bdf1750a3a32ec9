"""What a tick of the autoscaler came to: one compact record, and the words for every reason.

The record holds counts by reason, and verdicts only of services for which something was asked or refused; a quiet tick
has none, and is not written down.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetwarden.domain.actions import Record
from fleetwarden.domain.identifiers import JsonValue, Micros
from fleetwarden.domain.tracking_columns import Reason

__all__ = ["AutoscaleEvaluation", "AutoscaleVerdict", "ServiceEvaluation", "words_of"]


class AutoscaleVerdict(Record):
    """One service for which a tick asked, or was refused."""

    service: str
    answer: str
    reason: str
    current: int
    desired: int
    intent: str = ""
    decision: str = ""
    approval: str = ""


class AutoscaleEvaluation(Record):
    """One tick.  `status`: ok | not_ready (nothing was evaluated; `evidence` says why).

    `evaluated`, `skipped` and `not_asked` add up to `services`; `reasons` counts services by reason code.
    """

    at: Micros
    status: str = "ok"
    services: int = 0
    evaluated: int = 0
    skipped: int = 0
    not_asked: int = 0
    reasons: Mapping[str, int] = {}
    verdicts: tuple[AutoscaleVerdict, ...] = ()
    deferred: int = 0
    evidence: Mapping[str, JsonValue] | None = None
    problems: tuple[str, ...] = ()

    @property
    def quiet(self) -> bool:
        """Whether nothing happened that somebody may want to read later."""
        return not self.verdicts and self.status == "ok"


class ServiceEvaluation(Record):
    """Where one service stands: what people and `explain` read.

    `code`: a reason's code; `raw`: the equation's own answer; `signals`: each with value, target, age and what is wrong
    with it; `until`: when it is asked for again, where that is a matter of time.
    """

    service: str
    at: Micros
    code: str
    reason: str
    current: int
    desired: int
    raw: int
    ready: int = 0
    streak: str = ""
    samples: int = 0
    needed: int = 0
    until: Micros | None = None
    intent: str = ""
    signals: tuple[Mapping[str, JsonValue], ...] = ()
    limits: Mapping[str, JsonValue] = {}


_WORDS: Mapping[Reason, str] = {
    Reason.SCALE_UP: "{current} → {desired} is wanted",
    Reason.SCALE_DOWN: "{current} → {desired} is wanted",
    Reason.AT_TARGET: "{current} replicas carry the load",
    Reason.AT_MAX: "{desired_raw} replicas are wanted, and its maximum holds {current}",
    Reason.AT_MIN: "{desired_raw} replicas would do, and its minimum holds {current}",
    Reason.DEADBAND: "the load is within the deadband of its target",
    Reason.STABILIZING: "{desired_raw} replicas would do: sample {samples} of {needed} in that direction",
    Reason.WINDOW: "{desired_raw} replicas would do: its stabilization window holds {current}",
    Reason.SKIP_METRICS: "no usable sample{detail}",
    Reason.SKIP_UNOBSERVED: "no observation: nothing is done without evidence",
    Reason.SKIP_UNKNOWN: "its state is unknown: nothing is done without evidence",
    Reason.SKIP_DOWN: "it is down: it is repaired, not scaled",
    Reason.NOT_ASKED: "its signal was not asked for in this batch",
    Reason.NO_NEWS: "nothing newer was measured that could move it: what was used before holds the count",
    Reason.NOT_PLACED: "{ready} of {current} replicas are ready: no more are asked for before these are there",
    Reason.WARMING: "its newest replicas are warming up: their share of the average says nothing yet",
    Reason.BLOCKED_DOWN: "fewer would do, but a signal is missing or incomplete{detail}: that never shrinks anything",
    Reason.INACTIVE: "scaled to zero: the demand is not above its activation threshold",
    Reason.SKIP_COST: "more are wanted, and the cost ceiling allows no more than {current}",
    Reason.RATE_LIMIT: "more change is wanted than `behavior` allows in this period",
}


def words_of(reason: Reason, numbers: Mapping[str, JsonValue], detail: str = "") -> str:
    """A sentence for a reason, with its numbers."""
    text = _WORDS.get(reason, "{detail}")
    return text.format(
        **numbers, detail=f" ({detail})" if detail and "{detail}" in text and text != "{detail}" else detail
    )
