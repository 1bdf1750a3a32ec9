"""Who has to say yes: how many people, of which teams.

A rule may name teams and a count.  Where it names no teams, the team that owns the service answers; where nobody owns
it, everybody with the role does.  An empty list of teams is nobody, on purpose: such a request can be rejected and can
expire, and no grant will ever pass it.  Nothing here knows roles or tokens, and nothing here may make a need smaller
because it could not be understood.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleetwarden.domain.actions import Needed, Record
from fleetwarden.domain.errors import Misconfigured
from fleetwarden.domain.identifiers import JsonValue, name_problem
from fleetwarden.domain.located import Findings, Node
from fleetwarden.domain.located_values import quoted, whole

__all__ = ["COUNT_MAX", "TEAMS_MAX", "Approvers", "combined", "needed_for", "plain", "read_approvers", "read_teams"]
__all__ += ["vote_problem", "words"]

COUNT_MAX = 20
TEAMS_MAX = 20


class Approvers(Record):
    """A rule's `approvers:`.  `teams` None: the owning team; (): nobody.  `count` is 1 to 20 different people."""

    teams: tuple[str, ...] | None = None
    count: int = 1


def read_approvers(findings: Findings, node: Node) -> Approvers | None:
    """The block `{teams: [dba], count: 2}`, or None with the problems in `findings`."""
    example = "such as {teams: [dba], count: 2}"
    if not node.mapping:
        findings.problem(node, f"approvers: {quoted(node)} is no mapping with teams and count, {example}")
        return None
    before = len(findings.problems)
    parts = findings.keys(node, ("teams", "count"))
    if not parts and len(findings.problems) == before:
        findings.problem(node, f"approvers says nothing: give teams, count or both, {example}")
    teams = _teams(findings, parts["teams"]) if "teams" in parts else None
    count = whole(findings, "approvers.count", parts["count"], 1, COUNT_MAX) if "count" in parts else 1
    if len(findings.problems) > before or count is None:
        return None
    return Approvers(teams=teams, count=count)


def _teams(findings: Findings, node: Node) -> tuple[str, ...]:
    if not node.is_list:
        findings.problem(node, f"approvers.teams: {quoted(node)} is no list of teams (write [] for nobody)")
        return ()
    if len(node.items()) > TEAMS_MAX:
        findings.problem(node, f"approvers.teams: {len(node.items())} teams, the limit is {TEAMS_MAX}")
    named: list[str] = []
    for item in node.items():
        if not isinstance(item.value, str):
            findings.problem(item, f"approvers.teams: {quoted(item)} is no name of a team")
        elif problem := name_problem(item.value):
            findings.problem(item, f"approvers.teams: {problem}")
        elif item.value in named:
            findings.problem(item, f"approvers.teams: {item.value!r} stands here twice")
        else:
            named.append(item.value)
    return tuple(named)


def read_teams(names: Iterable[str]) -> tuple[str, ...]:
    """Teams of an identity, each once, in order.  Raises Misconfigured."""
    teams = tuple(dict.fromkeys(names))
    for name in teams:
        if problem := name_problem(name):
            raise Misconfigured(f"that is no name of a team: {problem}")
    if len(teams) > TEAMS_MAX:
        raise Misconfigured(f"{len(teams)} teams for one identity", hint=f"at most {TEAMS_MAX}")
    return teams


def combined(deciding: Approvers | None, finals: Sequence[Approvers | None]) -> Approvers | None:
    """What the deciding rule says, made no smaller than what each final rule that binds as well says.

    Teams that only one of them names do not count; where none is left, nobody can grant it.
    """
    said = [one for one in finals if one is not None]
    if not said:
        return deciding
    if deciding is not None:
        said = [deciding, *said]
    lists = [one.teams for one in said if one.teams is not None]
    teams = tuple(name for name in lists[0] if all(name in other for other in lists[1:])) if lists else None
    return Approvers(teams=teams, count=max(one.count for one in said))


def needed_for(approvers: Approvers | None, owner: str) -> Needed:
    """The need of one request whose target belongs to the team `owner` ("" for none)."""
    count = 1 if approvers is None else approvers.count
    teams = None if approvers is None else approvers.teams
    if teams is None:
        return Needed(count=count, teams=(owner,) if owner else ())
    return Needed(count=count, teams=teams, nobody=not teams)


def vote_problem(needed: Needed, teams: Iterable[str]) -> str | None:
    """Why somebody of these teams cannot say yes, or None."""
    if needed.nobody:
        return "the policy names nobody who could approve it (an empty list of teams)"
    if needed.teams and not set(needed.teams).intersection(teams):
        return f"it needs an approver of team {' or '.join(needed.teams)}"
    return None


def words(approvers: Approvers) -> str:
    """For the words of a rule."""
    if approvers.teams == ():
        return "approvers nobody"
    of = "the owning team" if approvers.teams is None else f"team {' or '.join(approvers.teams)}"
    return f"{approvers.count} approver{'s' if approvers.count > 1 else ''} of {of}"


def plain(approvers: Approvers) -> dict[str, JsonValue]:
    """As it may be written in a policy file."""
    teams: dict[str, JsonValue] = {} if approvers.teams is None else {"teams": list(approvers.teams)}
    return {**teams, "count": approvers.count}
