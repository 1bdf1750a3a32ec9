"""`depends_on:` which services a service needs, and whether it has to wait for one of them now.

Only direct dependencies count; what those depend on is their own matter.  What waits is a start, a restart, a deploy or
a larger count, never a stop or a smaller one.  A service waits for what is known to be down, not up yet, or under
repair: what nobody can see now is not down, so that a blind observer does not hold up other substrates.
A ring of services that wait for each other is refused when the files are read, and names are never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fleetwarden.domain.actions import ActionRequest, Kind, OutboxRecord
from fleetwarden.domain.fleet import DesiredState, ObservedService, Presence, Service, ServiceStatus
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import close, quoted, text

__all__ = ["DEPENDENCIES_MAX", "holds_up", "read_depends_on", "refuse_rings", "refuse_unknown", "repairs"]

DEPENDENCIES_MAX = 64
_HELD = frozenset({Kind.START, Kind.RESTART, Kind.DEPLOY})
_REPAIRS = frozenset({Kind.START, Kind.RESTART, Kind.DEPLOY, Kind.ROLLBACK, Kind.STOP})
_RING_SHOWN_MAX = 6


def read_depends_on(findings: Findings, node: Node) -> tuple[str, ...]:
    """The names as they are written: a list of texts, each once, at most DEPENDENCIES_MAX."""
    if not node.is_list:
        findings.problem(node, f"depends_on: {quoted(node)} is {node.shape}, a list of services such as [db] is needed")
        return ()
    items = node.items()
    if len(items) > DEPENDENCIES_MAX:
        findings.problem(node, f"depends_on: {len(items)} services, at most {DEPENDENCIES_MAX} can be named")
        return ()
    names: list[str] = []
    for item in items:
        name = text(findings, "depends_on", item)
        if name is None:
            continue
        if name in names:
            findings.problem(item, f"depends_on: {name!r} stands here twice")
        names.append(name)
    return tuple(dict.fromkeys(names))


def refuse_unknown(findings: Findings, node: Node, known: Iterable[str]) -> bool:
    """Name every dependency that no entry declares; returns whether there is one."""
    names = frozenset(known)
    strange = [item for item in node.items() if item.value not in names]
    for item in strange:
        findings.problem(item, f"depends_on: no service {item.value!r} in the registry{close(str(item.value), names)}")
    return bool(strange)


def refuse_rings(needs: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, str]]:
    """Services that wait for themselves in the end: for each, the dependency that leads on, and the ring in words."""
    refused: dict[str, tuple[str, str]] = {}
    for ring in _rings(needs):
        members = frozenset(ring)
        words = _words(_way_round(min(ring), members, needs))
        for name in ring:
            refused[name] = (next(one for one in needs[name] if one in members), words)
    return refused


def _rings(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Strongly connected components with a ring in them (Tarjan's algorithm, without recursion)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for root in needs:
        if root in order:
            continue
        work = [(root, iter(needs[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, rest = work[-1]
            following = next((one for one in rest if one in needs and (one not in order or one in on_stack)), None)
            if following is not None and following not in order:
                order[following] = low[following] = len(order)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(needs[following])))
                continue
            if following is not None:
                low[name] = min(low[name], order[following])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[name])
            if low[name] == order[name]:
                ring = _unwound(stack, on_stack, name)
                if len(ring) > 1 or name in needs[name]:
                    found.append(ring)
    return found


def _unwound(stack: list[str], on_stack: set[str], name: str) -> list[str]:
    ring = []
    while True:
        one = stack.pop()
        on_stack.discard(one)
        ring.append(one)
        if one == name:
            return ring


def _way_round(start: str, members: frozenset[str], needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The shortest way from a service back to itself."""
    came: dict[str, str] = {}
    ahead = [start]
    for name in ahead:  # grows while it is walked
        for following in needs[name]:
            if following == start:
                way = [start, name] if name != start else [start]
                while way[-1] != start:
                    way.append(came[way[-1]])
                return [start, *reversed(way[1:-1]), start] if name != start else [start, start]
            if following in members and following not in came:
                came[following] = name
                ahead.append(following)
    raise AssertionError(f"{start} is on no ring")


def _words(way: Sequence[str]) -> str:
    if len(way) <= _RING_SHOWN_MAX + 1:
        return " → ".join(way)
    return " → ".join([*way[:_RING_SHOWN_MAX], f"… {len(way) - 1 - _RING_SHOWN_MAX} more", way[-1]])


def repairs(records: Iterable[OutboxRecord]) -> dict[str, OutboxRecord]:
    """The services that are under repair, by their open records."""
    return {one.request.target: one for one in records if one.request.kind in _REPAIRS and not one.request.dry_run}


def holds_up(
    service: Service,
    request: ActionRequest,
    fleet: Mapping[str, Service],
    seen: Mapping[str, ObservedService],
    repaired: Mapping[str, OutboxRecord],
) -> str | None:
    """Why this request has to wait for another service, or None."""
    if request.kind not in _HELD and not (request.kind == Kind.SCALE and request.direction == "up"):
        return None
    for name in service.depends_on:
        if (why := _not_there(fleet.get(name), seen.get(name), repaired.get(name))) is not None:
            return f"it depends on {name}, {why}"
    return None


def _not_there(service: Service | None, observed: ObservedService | None, record: OutboxRecord | None) -> str | None:
    if service is None:
        return "whose own entry in the registry is rejected"
    if record is not None:
        return f"which is under repair ({record.id}, {record.request.kind})"
    if observed is None or observed.status is ServiceStatus.UNKNOWN:
        return None
    if service.desired is DesiredState.STOPPED:
        return f"which is declared stopped ({service.source})" if service.source else "which is declared stopped"
    if service.replicas == 0:  # none, on purpose
        return None
    if observed.presence is not Presence.STARTED:
        return "which is not started"
    if observed.status is ServiceStatus.DOWN:
        return "which is down"
    if observed.ready == 0:
        return f"of which none of {observed.total} is ready"
    return None
