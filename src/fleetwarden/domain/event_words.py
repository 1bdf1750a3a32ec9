"""What monitoring systems mean by their words: severities, states, and what an alert is about.

Senders' words are free text.  What is not known for sure is never made worse than it is: an unknown severity is the
default of its kind of sender, an unknown state is a note, and an alert that does not say that something is down is not
about an outage.  Pressure comes first: a name that says both is about pressure, and nothing restarts for that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from itertools import pairwise
from typing import Final, TypeVar

from fleetwarden.domain.events import EventClass, Phase, Severity

__all__ = [
    "class_of",
    "is_no_data",
    "is_notice",
    "is_test",
    "phase_of",
    "pressed",
    "severity_of",
    "source_of",
]

_SOURCES: Final = {"uptimekuma": "uptime-kuma", "kuma": "uptime-kuma"}

_SEVERITIES: Final = {
    **dict.fromkeys(
        ("critical", "crit", "emergency", "emerg", "fatal", "page", "disaster", "urgent"), Severity.CRITICAL
    ),
    **dict.fromkeys(("error", "err", "major", "high"), Severity.ERROR),
    **dict.fromkeys(("warning", "warn", "minor", "medium", "moderate"), Severity.WARNING),
    **dict.fromkeys(
        ("info", "information", "informational", "notice", "debug", "none", "ok", "okay", "resolved", "low"),
        Severity.INFO,
    ),
}
_RANKS: Final = (Severity.CRITICAL, Severity.CRITICAL, Severity.ERROR, Severity.WARNING, Severity.INFO, Severity.INFO)
_RANK = re.compile(r"(?:p|sev|severity|prio|priority)[ _-]?([0-5])")  # P1, sev-2: 0 and 1 are the worst
_FIRING: Final = frozenset(
    {
        "firing",
        "alerting",
        "alert",
        "down",
        "triggered",
        "trigger",
        "problem",
        "failed",
        "failing",
        "failure",
        "critical",
        "open",
        "opened",
        "active",
        "error",
        "unhealthy",
        "offline",
        "unreachable",
    }
)
_RESOLVED: Final = frozenset(
    {
        "resolved",
        "resolve",
        "ok",
        "okay",
        "up",
        "recovered",
        "recovery",
        "closed",
        "healthy",
        "normal",
        "online",
        "cleared",
    }
)
_SPLIT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
_TEXT_MAX = 512  # characters of a sentence that are looked at
_KNOWN_MAX = 2048  # answers that are remembered of each question
_KNOWN_LENGTH = 256  # characters of all its texts together
_PRESSURE: Final = frozenset(
    {
        "disk",
        "memory",
        "mem",
        "oom",
        "oomkilled",
        "oomkill",
        "swap",
        "cpu",
        "filesystem",
        "fs",
        "inode",
        "inodes",
        "pressure",
        "load",
        "heap",
        "storage",
        "quota",
        "throttling",
        "throttled",
        "saturation",
        "saturated",
    }
)
_NAMES_TOO: Final = frozenset({"load", "heap", "storage", "quota"})  # things are called after these, too
_MEASURED: Final = frozenset(
    {
        *("high", "low", "full", "usage", "used", "utilization", "utilisation", "average", "avg", "percent", "free"),
        *("left", "space", "limit", "exceeded", "exhausted", "above", "over", "out", "pressure", "cpu", "filling"),
    }
)
_FLAPPING: Final = frozenset(
    {"flap", "flapping", "flaps", "crashloop", "crashlooping", "crashloopbackoff", "restarting"}
)
_DOWN: Final = frozenset(
    {
        "down",
        "unreachable",
        "unavailable",
        "offline",
        "dead",
        "died",
        "outage",
        "unhealthy",
        "crashed",
        "exited",
        "absent",
        "missing",
        "disappeared",
        "stopped",
    }
)
_DOWN_PAIRS: Final = (
    ("probe", "failure"),
    ("probe", "failed"),
    ("healthcheck", "failed"),
    ("health", "failed"),
    ("not", "running"),
    ("not", "responding"),
    ("not", "ready"),
    ("not", "available"),
    ("connection", "refused"),
)
_FLAPPING_PAIRS: Final = (("crash", "loop"), ("crash", "looping"), ("restart", "loop"), ("frequent", "restarts"))
_NO_DATA = re.compile(r"\bno[ _-]?data\b|datasource(?:no[ _-]?data|[ _-]?error)|\bdata ?source error\b", re.IGNORECASE)
_NOTICE = re.compile(
    r"\b(?:certificates?|certs?|ssl|tls|domain)\b.{0,120}\b(?:expir\w*|valid|renew\w*)\b"
    r"|\b(?:expir\w*|renew\w*)\b.{0,120}\b(?:certificates?|certs?|ssl|tls|domain)\b"
    r"|(?:certificate|cert|ssl|tls)s?[ _-]?(?:\w{0,20}[ _-]?)?expir",
    re.IGNORECASE,
)
_TEST = re.compile(r"^\W*test(?:[ _-]?(?:alert|notification|message|event))?\W*$|\bnotification test\b", re.IGNORECASE)
_ALWAYS = frozenset({"watchdog", "deadmansswitch", "deadmanssnitch", "deadmanswitch", "infoinhibitor"})


A = TypeVar("A")


def _remembered(judge: Callable[..., A]) -> Callable[..., A]:
    """The same answer for the same texts: what a sender calls things comes again and again, and asking is dear."""
    known = lru_cache(maxsize=_KNOWN_MAX)(judge)

    @wraps(judge)
    def asked(*texts: str) -> A:
        return known(*texts) if sum(map(len, texts)) <= _KNOWN_LENGTH else judge(*texts)

    return asked


def severity_of(word: object, default: Severity) -> Severity:
    """The severity that a sender's word means, whatever its case and white space; `default` for one that is unknown."""
    if not isinstance(word, str):
        return default
    said = word.strip().lower()
    if (known := _SEVERITIES.get(said)) is not None:
        return known
    ranked = _RANK.fullmatch(said)
    return default if ranked is None else _RANKS[int(ranked[1])]


def source_of(name: str) -> str:
    """What somebody calls a sender, as sources are written: `Uptime_Kuma` is `uptime-kuma`."""
    written = name.strip().lower().replace("_", "-")
    return _SOURCES.get(written, written)


def phase_of(status: str) -> Phase:
    """What a sender's state says: that it began, that it ended, or neither."""
    word = status.strip().lower()
    if word in _FIRING:
        return Phase.FIRING
    return Phase.RESOLVED if word in _RESOLVED else Phase.NOTE


@_remembered
def is_no_data(*texts: str) -> bool:
    """Whether it says that there was nothing to measure, which is not that something is down."""
    return any(_NO_DATA.search(text[:_TEXT_MAX]) for text in texts)


def is_notice(*texts: str) -> bool:
    """Whether it is about a certificate or a domain that runs out: for people, and no outage."""
    return any(_NOTICE.search(text[:_TEXT_MAX]) for text in texts if _runs_out(text[:_TEXT_MAX].lower()))


def _runs_out(low: str) -> bool:
    """What most texts lack is looked for first: the pattern is dear."""
    return "expir" in low or "renew" in low or "valid" in low


@_remembered
def is_test(*texts: str) -> bool:
    """Whether it is the message that a sender's test button sends."""
    return any(_TEST.search(text[:_TEXT_MAX]) for text in texts)


@_remembered
def class_of(name: str, *sentences: str) -> EventClass:
    """What an alert is about: by its name and, where that says nothing, by its sentences.

    Pressure before flapping before down.  What always fires, and notices of certificates, are about nothing.
    """
    if name.lower() in _ALWAYS or is_notice(name, *sentences):
        return EventClass.NONE
    for text in (name, " ".join(sentences)):
        found = _class_of_words([word.lower() for word in _SPLIT.split(text[:_TEXT_MAX]) if word])
        if found is not EventClass.NONE:
            return found
    return EventClass.NONE


def pressed(name: str, *sentences: str) -> bool:
    """Whether a check that is named after what it looks at is about pressure.

    Where a thing is called after one of its words, such as `load-balancer` or `storage-api`, it says nothing of the
    kind: such a word counts where it ends the text (`web load`), or beside a measure (`high load on web`).
    """
    if class_of(name, *sentences) is not EventClass.PRESSURE:
        return False
    for text in (name, " ".join(sentences)):
        words = [word.lower() for word in _SPLIT.split(text[:_TEXT_MAX]) if word]
        meant = _PRESSURE.intersection(words)
        if meant - _NAMES_TOO or (meant and (words[-1] in meant or not _MEASURED.isdisjoint(words))):
            return True
    return False


def _class_of_words(words: list[str]) -> EventClass:
    pairs = set(pairwise(words))
    if not _PRESSURE.isdisjoint(words):
        return EventClass.PRESSURE
    if not _FLAPPING.isdisjoint(words) or not pairs.isdisjoint(_FLAPPING_PAIRS):
        return EventClass.FLAPPING
    if not _DOWN.isdisjoint(words) or not pairs.isdisjoint(_DOWN_PAIRS):
        return EventClass.DOWN
    return EventClass.NONE
