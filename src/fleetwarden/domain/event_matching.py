"""Which service an event is about: what the registry's `match:` says, else a label that equals a service's name.

`match:` is a list of which any may fit; each names labels that all have to fit, and values are globs.  Where several
services fit, the one whose entry has more literal characters is meant; where that does not decide, none is: an event
that could be about two services must not act on either.  An event that fits none is kept and acts on nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from fleetwarden.domain.actions import Record
from fleetwarden.domain.events import FleetEvent
from fleetwarden.domain.globs import Glob
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import quoted, text

__all__ = ["DEFAULT_LABELS", "Match", "Matcher", "read_match"]

Match: TypeAlias = tuple[tuple[str, str], ...]  # labels and globs, all of which have to fit
MATCHES_MAX: Final = 64
LABELS_MAX: Final = 16
DEFAULT_LABELS: Final = (
    "service",
    "service_name",
    "app",
    "app_kubernetes_io_name",
    "container_label_com_docker_compose_service",
    "deployment",
    "statefulset",
    "container_name",
    "container",
    "job",
    "monitor",
)


def read_match(findings: Findings, node: Node) -> tuple[Match, ...]:
    """The list as it is written: 1 to MATCHES_MAX mappings, each of 1 to LABELS_MAX labels to texts."""
    if not node.is_list or not node.items():
        told = "an empty list" if node.is_list else f"{quoted(node)} is {node.shape}"
        findings.problem(node, f"match: {told}, a list of labels such as [{{job: shop}}] is needed")
        return ()
    if len(node.items()) > MATCHES_MAX:
        findings.problem(node, f"match: {len(node.items())} entries, at most {MATCHES_MAX} can be given")
        return ()
    found = []
    for place, item in enumerate(node.items()):
        if not item.mapping or not item.pairs():
            findings.problem(item, f"match[{place}]: {item.shape}, a mapping of labels such as {{job: shop}} is needed")
            continue
        if len(item.pairs()) > LABELS_MAX:
            findings.problem(item, f"match[{place}]: {len(item.pairs())} labels, at most {LABELS_MAX} can be given")
            continue
        found.append(_labels(findings, f"match[{place}]", item))
    return tuple(one for one in found if one)


def _labels(findings: Findings, field: str, item: Node) -> Match:
    made: dict[str, str] = {}
    for key, value in item.pairs():
        name = text(findings, f"{field}: a label's name", key, longest=128)
        pattern = text(findings, f"{field}.{name}", value, longest=512)
        if name is None or pattern is None:
            continue
        if name in made:
            findings.problem(key, f"{field}: {name!r} stands here twice")
        if Glob(pattern).unclosed:
            findings.problem(value, f"{field}.{name}: a '[' that is never closed")
        if set(pattern) == {"*"} and len(item.pairs()) == 1:
            findings.problem(value, f"{field}.{name}: {pattern!r} alone fits every event that has the label")
        made[name] = pattern
    return tuple(made.items())


class _Entry(Record):
    service: str
    literals: int
    labels: tuple[tuple[str, Glob], ...]


class Matcher:
    """What is declared, arranged so that an event looks at few entries of many services."""

    def __init__(self, declared: Iterable[tuple[str, Sequence[Match]]]) -> None:
        self._names: set[str] = set()
        self._exact: dict[tuple[str, str], list[_Entry]] = {}
        self._globs: dict[str, list[_Entry]] = {}  # by a label that has to be there
        for service, matches in declared:
            self._names.add(service)
            for match in matches:
                labels = tuple((name, Glob(pattern)) for name, pattern in match)
                entry = _Entry(service=service, literals=sum(one.literals for _, one in labels), labels=labels)
                exact = next(((name, one.pattern) for name, one in labels if one.exact), None)
                if exact is not None:
                    self._exact.setdefault(exact, []).append(entry)
                else:
                    self._globs.setdefault(labels[0][0], []).append(entry)

    def service_of(self, event: FleetEvent) -> str | None:
        """The service that the event is about, or None."""
        labels = {"source": event.source, "subject": event.subject, **event.labels}
        fitting: dict[str, int] = {}
        for name, value in labels.items():
            for entry in (*self._exact.get((name, value), ()), *self._globs.get(name, ())):
                if all(one in labels and glob.matches(labels[one]) for one, glob in entry.labels):
                    fitting[entry.service] = max(fitting.get(entry.service, 0), entry.literals)
        if fitting:
            best = max(fitting.values())
            meant = [service for service, literals in fitting.items() if literals == best]
            return meant[0] if len(meant) == 1 else None
        for name in DEFAULT_LABELS:
            if labels.get(name) in self._names:
                return labels[name]
        return event.subject if event.subject in self._names else None
