"""`explain` as people see it: what is, what is wanted, what was proposed, by which rule and numbers, and what would
change the answer.

Pure: an answer of the plane in, lines out.  Every refusal ends with what would satisfy it, and every id that is shown
can be given back to a command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleetwarden.cli.scaling_screen import show_scaling
from fleetwarden.cli.screen import Screen
from fleetwarden.cli.times import ago, localised, parsed, shown
from fleetwarden.cli.wording import asked_for, counted, done_words, state_of, status_word, verdict_word

__all__ = ["limit_rows", "show_explanation"]

Item = Mapping[str, Any]
Words = Callable[[str], str]
_GATES = ("freeze", "storm", "min_healthy", "blast", "window")
_PASSED = {"freeze": "not frozen", "storm": "no storm of failures", "window": "no maintenance window"}
_TIMES_MAX = 5  # of a budget: the newest say when it opens, and a line stays a line


def show_explanation(screen: Screen, body: Item, words: Words) -> None:
    """`words` makes the commands in a sentence pasteable; "fleetwarden …" in it stands for a command."""
    now = parsed(body.get("at"))
    _situation(screen, body, now)
    show_scaling(screen, body, now)
    proposed = body.get("proposed")
    decision = body.get("decision")
    if proposed:
        _proposal(screen, body, now)
    else:
        screen.line(f"Nothing is proposed: {localised(str(body.get('reason') or ''), now)}.", indent=2)
        if decision:
            _past(screen, body, now)
    for note in body.get("notes") or ():
        screen.line(words(localised(str(note), now)), indent=2)
    _conditions(screen, body, words, now)
    _follow(screen, body, words, now)


def _situation(screen: Screen, body: Item, now: Any) -> None:
    name, observed, desired = body["service"], body.get("observed"), body["desired"]
    if not observed:
        screen.line(f"{name}: no observation, so its state is unknown and nothing is done", indent=2)
    else:
        since, at = parsed(observed.get("since")), parsed(observed.get("observed_at"))
        seen = f"seen by: {observed.get('source')}"
        if at is not None and now is not None:
            seen += f", {ago(observed['observed_at'], now)}"
        detail = localised(str(observed.get("detail") or ""), now)
        detail = "" if detail == state_of(body) else detail
        began = f" since {shown(observed.get('since'), now)}" if since is not None else ""
        told = f"({detail}; {seen})" if detail else f"({seen})"
        screen.line(f"{name} is {state_of(body)}{began} {told}", indent=2)
    count = counted(int(desired["replicas"]), "replica") if desired["state"] == "running" else "none"
    version = f", version {desired['version']}" if desired.get("version") else ""
    existing = f" Existing: {observed['existing']}, ready: {observed['ready']}." if observed else ""
    screen.line(f"Wanted: {desired['state']}, {count}{version} ({desired['source']}).{existing}", indent=2)


def _proposal(screen: Screen, body: Item, now: Any) -> None:
    proposed, decision, ruling = body["proposed"], body.get("decision"), body.get("now") or {}
    asked = asked_for({**proposed, "target": body["service"]})
    verdict = verdict_word(body.get("verdict"))
    reason = proposed.get("reason")
    screen.line(f"Proposed: {asked}" + (f", because {localised(str(reason), now)}" if reason else "") + ".", indent=2)
    said = localised(str(body.get("reason") or ""), now)
    screen.line(f"Policy now: {said if said.startswith(verdict) else f'{verdict}: {said}'}.", indent=2)
    _rule(screen, ruling.get("rule_source"), ruling.get("rule"))
    for label, text in limit_rows(ruling.get("numbers") or {}, str(ruling.get("code")), now):
        screen.line(f"  {label:<9} {text}", indent=12)
    if decision:
        screen.line(f"Decision {_stamp(decision, now)}: {verdict_word(decision['verdict'])}.", indent=2)
        _evidence(screen, body, now)


def _past(screen: Screen, body: Item, now: Any) -> None:
    """The last decision, where nothing is proposed now."""
    decision = body["decision"]
    asked = asked_for({**decision, "target": body["service"]})
    screen.line(f"Last decision {_stamp(decision, now)}, {asked}: {verdict_word(decision['verdict'])}.", indent=2)
    _rule(screen, decision.get("source"), decision.get("rule"))
    for line in str(decision.get("rule_text") or "").splitlines():
        screen.line(f"  {'':<9} {line}", indent=14)
    numbers = decision.get("numbers") or {}
    for label, text in limit_rows(numbers, str(decision.get("code")), now, past=True):
        screen.line(f"  {label:<9} {text}", indent=12)
    screen.line(f"  {'because':<9} {localised(str(decision.get('reason') or ''), now)}", indent=12)
    _evidence(screen, body, now)


def _stamp(decision: Item, now: Any) -> str:
    return f"{decision['id']}, {shown(decision.get('at'), now)}"


def _rule(screen: Screen, where: object, rule: object) -> None:
    if rule:
        told = str(rule) if where == rule else f"{where}  {rule}"  # a freeze or a breaker is no rule of a file
        screen.line(f"  {'rule':<9} {told}", indent=12)


def _evidence(screen: Screen, body: Item, now: Any) -> None:
    for one in body.get("evidence") or ():
        if not str(one.get("what", "")).startswith("evidence of"):
            continue
        told = [str(one.get("reason") or "")]
        if one.get("seen_by"):
            told.append(f"seen by: {one['seen_by']}")
        if one.get("observed_at"):
            told.append(f"at {shown(one['observed_at'], now)}")
        if one.get("existing") is not None:
            told.append(f"{one.get('ready')} ready, {one['existing']} existing, {one.get('total')} wanted then")
        text = localised("; ".join(part for part in told if part), now)
        screen.line(f"  {'evidence':<9} {text}", indent=12)


def limit_rows(numbers: Item, code: str, now: Any, *, past: bool = False) -> list[tuple[str, str]]:
    """Budgets and gates of a ruling as rows: a word and a sentence.  `past`: of a decision that was taken."""
    rows = []
    rate, blast, window = numbers.get("rate"), numbers.get("blast"), numbers.get("window")
    if isinstance(rate, Mapping):
        rows.append(("budget", _rate_words(rate, now, past=past)))
    if isinstance(blast, Mapping):
        others = ", ".join(map(str, blast.get("other_targets") or ()))
        said = f"{blast.get('targets')} of at most {blast.get('max')} targets within {blast.get('window_s')} s"
        rows.append(("blast", said + (f": this one and {others}" if others else "") + _place(blast)))
    if isinstance(window, Mapping):
        state = "open" if window.get("open") else f"closed; opens {shown(window.get('opens_at'), now) or 'never again'}"
        rows.append(("window", f"{window.get('hours')} {window.get('zone')}: {state}{_place(window)}"))
    frozen = numbers.get("freeze")
    if isinstance(frozen, list):
        rows.append(("freeze", localised("; ".join(map(str, frozen)), now)))
    rows += [("final", str(one)) for one in numbers.get("final") or ()]
    shown_already = {"window"} if isinstance(window, Mapping) else set()
    passed = [gate for gate in ("freeze", "storm", "window") if gate != code and gate not in shown_already]
    if code not in ("structure", "freeze", "error") and isinstance(rate, Mapping) and passed:
        rows.append(("else", ", ".join(_PASSED[gate] for gate in passed)))
    return rows


def _rate_words(rate: Item, now: Any, *, past: bool) -> str:
    limit, used = rate.get("max"), rate.get("used")
    said = f"{used} of {limit} used{' before it' if past else ''} in {rate.get('window_s')} s"
    if not past and isinstance(limit, int) and isinstance(used, int) and used < limit:
        said += f", {limit - used} left"
    known = list(reversed(rate.get("used_at") or ()))
    more = int(rate.get("used_at_omitted") or 0) + max(0, len(known) - _TIMES_MAX)
    times = [shown(at, now, seconds=False) for at in known[-_TIMES_MAX:]]
    if times:
        said += f": {', '.join(times)}"
    if more:
        said += f" and {more} earlier"
    if rate.get("next_slot_at"):
        said += f"; the next slot opens {shown(rate['next_slot_at'], now)}"
    return said + _place(rate)


def _place(block: Item) -> str:
    return f"  ({block['source']})" if block.get("source") else ""


def _conditions(screen: Screen, body: Item, words: Words, now: Any) -> None:
    conditions = [words(localised(str(one), now)) for one in body.get("would_change_if") or ()]
    if conditions:
        when = "It would be allowed if" if body.get("proposed") else "It would change if"
        screen.line(f"{when}: {'; or '.join(conditions)}.", indent=2)


def _follow(screen: Screen, body: Item, words: Words, now: Any) -> None:
    """Where to look further."""
    waiting, opened, done = body.get("approval"), body.get("open_action"), body.get("last_action")
    if waiting:
        state = status_word(waiting["status"])
        look = words(f"fleetwarden approvals show {waiting['short_id']}")
        screen.line(f"Approval {waiting['short_id']} ({state}):  {look}", indent=2)
    if opened:
        look = words(f"fleetwarden actions show {opened['id']}")
        said = f"{asked_for(opened)}: {status_word(opened['state'])}"
        screen.line(f"Open action {opened['id']}, {said}:  {look}", indent=2)
    if done:
        look = words(f"fleetwarden executions show {done['id']}")
        screen.line(f"Last action {done['id']}, {done_words(done)} {ago(done['at'], now)}:  {look}", indent=2)
