"""Ways to tamper with an export, each by somebody who knows how it is made.

Whoever tampers may compute digests, roots and seals again as far as they like, and counts the items right.  Only the
key of the checkpoints is out of reach.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Item = dict[str, Any]
Items = list[Item]
ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(value: Any) -> bytes:
    return ENCODER.encode(value).encode()


def digest(value: Any) -> str:
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def root(entries: Items) -> str:
    level = [
        hashlib.sha256(b"\0" + canonical([one["position"], one["kind"], one["ref"], one["digest"]])).digest()
        for one in entries
    ]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\1" + pair[0] + pair[1]).digest() if pair[1:] else pair[0] for pair in pairs]
    return "sha256:" + level[0].hex() if level else ""


def another(value: Any, random: Random) -> Any:
    """A different value of the same kind, or of none."""
    if value is None:
        return random.choice([0, 1, ""])
    if isinstance(value, int):
        return random.choice([value + 1, value - 1, value - 3_600_000_000, -value - 1, None])
    at = random.randrange(len(value) + 1)
    edited = value[:at] + random.choice("x0 }é") + value[at:]
    return random.choice([edited, value[:-1] if value else "x", None])


def places(items: Items, *types: str) -> list[int]:
    return [at for at, one in enumerate(items) if one["type"] in types]


def digested(entry: Item) -> Item:
    return {**entry, "digest": digest({"row": entry["row"], "table": entry["kind"]})}


def resealed(items: Items, *, chain: bool) -> Items:
    """Every seal made to fit the rows before it; `chain`: and the seal before it."""
    done: Items = []
    group: Items = []
    before: Mapping[str, Any] | None = None
    for one in items:
        told = one
        if one["type"] == "entry":
            group.append(one)
        if one["type"] == "seal":
            body = {name: value for name, value in one.items() if name not in ("type", "digest")}
            body.update(root=root(group), count=len(group))
            if group:
                body.update(first=group[0]["position"], last=group[-1]["position"])
            if chain:
                body["previous"] = "" if before is None else before["digest"]
            told = {"type": "seal", **body, "digest": digest({"format": 1, **body})}
            before, group = told, []
        done.append(told)
    return done


def numbered(items: Items) -> Items:
    """Positions counted again from 1."""
    position, done = 0, []
    for one in items:
        if one["type"] == "entry":
            position += 1
        done.append({**one, "position": position} if one["type"] == "entry" else one)
    return done


def change_row(items: Items, random: Random) -> Items:
    at = random.choice(places(items, "entry"))
    row = dict(items[at]["row"])
    name = random.choice(sorted(row))
    row[name] = another(row[name], random)
    return [*items[:at], {**items[at], "row": row}, *items[at + 1 :]]


def change_row_and_digest(items: Items, random: Random) -> Items:
    changed = change_row(items, random)
    return [digested(one) if one["type"] == "entry" else one for one in changed]


def change_entry(items: Items, random: Random) -> Items:
    at = random.choice(places(items, "entry"))
    name = random.choice(["position", "kind", "ref", "digest", "row"])
    value = None if name == "row" else another(items[at][name], random)
    return [*items[:at], {**items[at], name: value}, *items[at + 1 :]]


def back_date(items: Items, random: Random) -> Items:
    dated = [at for at in places(items, "entry") if "at" in items[at]["row"]]
    at = random.choice(dated)
    row = {**items[at]["row"], "at": items[at]["row"]["at"] - random.randrange(1, 10**12)}
    return [*items[:at], digested({**items[at], "row": row}), *items[at + 1 :]]


def drop(items: Items, random: Random) -> Items:
    at = random.choice(places(items, "entry", "seal"))
    return [*items[:at], *items[at + 1 :]]


def duplicate(items: Items, random: Random) -> Items:
    at = random.choice(places(items, "entry", "seal"))
    to = random.randrange(1, len(items))
    return [*items[:to], items[at], *items[to:]]


def reorder(items: Items, random: Random) -> Items:
    first, second = sorted(random.sample(places(items, "entry"), 2))
    return [*items[:first], items[second], *items[first + 1 : second], items[first], *items[second + 1 :]]


def swap_rows(items: Items, random: Random) -> Items:
    first, second = random.sample(places(items, "entry"), 2)
    changed = list(items)
    changed[first] = digested({**items[first], **{name: items[second][name] for name in ("kind", "ref", "row")}})
    changed[second] = digested({**items[second], **{name: items[first][name] for name in ("kind", "ref", "row")}})
    return changed


def cut_rows(items: Items, random: Random) -> Items:
    gone = set(places(items, "entry")[-random.randrange(1, 8) :])
    return [one for at, one in enumerate(items) if at not in gone]


def cut_tail_with_seals(items: Items, random: Random) -> Items:
    seals = places(items, "seal")
    kept = random.randrange(len(seals))
    start = seals[kept - 1] + 1 if kept else 1
    return [one for at, one in enumerate(items) if at < start or at > seals[-1]]


def change_seal(items: Items, random: Random) -> Items:
    at = random.choice(places(items, "seal"))
    name = random.choice(sorted(set(items[at]) - {"type"}))
    seal = {**items[at], name: another(items[at][name], random)}
    if name != "digest" and random.random() < 0.5:
        seal["digest"] = digest({"format": 1, **{key: seal[key] for key in seal if key not in ("type", "digest")}})
    return [*items[:at], seal, *items[at + 1 :]]


def forge(items: Items, random: Random) -> Items:
    """A row that never was, among those that were."""
    at = random.choice(places(items, "entry"))
    row = {**items[at]["row"], "seq": 10_000 + random.randrange(1000)}
    fresh = digested({**items[at], "ref": row["seq"], "row": row})
    return [*items[:at], fresh, *items[at:]]


def change_state(items: Items, random: Random) -> Items:
    at = random.choice(places(items, "state"))
    name = random.choice(["status", "note", "superseded_by", "ended_at", "votes"])
    return [*items[:at], {**items[at], name: another(items[at][name], random)}, *items[at + 1 :]]


def change_text(items: Items, random: Random) -> Items:
    at = random.choice(places(items, "text"))
    return [*items[:at], {**items[at], "body": another(items[at]["body"], random) or ""}, *items[at + 1 :]]


def change_checkpoint(items: Items, random: Random) -> Items:
    at = random.choice(places(items, "checkpoint"))
    name = random.choice(["number", "digest", "at", "signature"])
    return [*items[:at], {**items[at], name: another(items[at][name], random)}, *items[at + 1 :]]


PLAIN: tuple[Callable[[Items, Random], Items], ...] = (
    change_row,
    change_row_and_digest,
    change_entry,
    back_date,
    drop,
    duplicate,
    reorder,
    swap_rows,
    cut_rows,
    cut_tail_with_seals,
    change_seal,
    forge,
    change_state,
    change_text,
    change_checkpoint,
)
COVERED_UP = (change_row_and_digest, back_date, drop, duplicate, swap_rows, cut_rows, cut_tail_with_seals, forge)


def covering(mutation: Callable[[Items, Random], Items]) -> Callable[[Items, Random], Items]:
    """The same, with positions, roots and seals made to fit, and in half of the cases the whole chain."""

    def covered(items: Items, random: Random) -> Items:
        return resealed(numbered(mutation(items, random)), chain=random.random() < 0.5)

    covered.__name__ = f"{mutation.__name__}_covered_up"
    return covered


MUTATIONS = (*PLAIN, *map(covering, COVERED_UP))


def tampered(items: Items, random: Random) -> tuple[str, Items]:
    """One mutation, with its name; the last item counts right."""
    while True:
        mutation = random.choice(MUTATIONS)
        changed = mutation(items, random)
        body = [one for one in changed if one["type"] != "end"]
        changed = [*body, {"type": "end", "items": len(body) + 1}]
        if changed != items:
            return mutation.__name__, changed
