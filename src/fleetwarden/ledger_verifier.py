"""Verify a ledger of fleetwarden offline: one file, the standard library only, no code shared with what wrote it.

    python ledger_verifier.py export.jsonl [--key ledger.key] [--checkpoints ledger-checkpoints.jsonl] [--json]
    python ledger_verifier.py --sqlite fleetwarden.db [--key ...] [--checkpoints ...]

Copy it wherever you trust the machine.  It computes every digest, every Merkle root and the chain of seals again, and
compares what may change (the status of approvals) with the sealed events of its changes.  It proves sealed rows and
names the rows that no seal covers yet.  What it cannot see by itself: newest seals that were cut off together with
their rows.  Checkpoints show that, if they were kept where the attacker could not write.

Exit codes: 0 everything sealed is as it was, 1 it is not, 2 the input cannot be read.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

__all__ = ["FORMAT", "Report", "Verifier", "main", "of_sqlite"]

FORMAT = 1
FAULTS_MAX = 100  # told in words; all are counted
SIGNED = ("at", "digest", "number")
ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
Item = Mapping[str, Any]

# What is digested of each table, for files read with --sqlite.  In an export the row says it itself, and the digest
# fails if it says anything else.
ROWS = {
    "decisions": "seq at kind target source key dry_run request request_digest verdict code reason rule rule_source "
    "policy_digest numbers waives",
    "executions": "seq action_seq decision_seq at kind target source state ok dry_run code detail started_at "
    "finished_at evidence",
    "journal": "seq at topic actor subject severity summary detail",
    "approvals": "seq kind target request digest decision_seq reason waives created_at expires_at needed",
    "votes": "seq approval_seq person decision reason teams at",
    "ledger_events": "seq at topic ref body",
}


def canonical(value: Any) -> bytes:
    """The one byte form of a value: sorted keys, no white space, UTF-8."""
    return ENCODER.encode(value).encode()


def digest(value: Any) -> str:
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def root_of(leaves: list[bytes]) -> str:
    """The Merkle root: leaves under 0x00, nodes under 0x01, an odd one out carried up."""
    level = [hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        above = []
        for at in range(0, len(level), 2):
            pair = level[at : at + 2]
            above.append(hashlib.sha256(b"\x01" + pair[0] + pair[1]).digest() if len(pair) == 2 else pair[0])
        level = above
    return "sha256:" + level[0].hex() if level else ""


class Report:
    """What was found.  `tail`: rows that no seal covers, as (kind, number)."""

    def __init__(self) -> None:
        self.sealed = self.seals = self.texts = self.checkpoints = self.unsigned = self.faults = 0
        self.told: list[str] = []
        self.tail: list[tuple[str, int]] = []
        self.newest = ""

    @property
    def sound(self) -> bool:
        return self.faults == 0

    def fault(self, words: str) -> None:
        self.faults += 1
        if len(self.told) < FAULTS_MAX:
            self.told.append(words)

    def plain(self) -> dict[str, Any]:
        """JSON-ready."""
        tail = [{"kind": kind, "number": ref} for kind, ref in self.tail]
        counted = {name: getattr(self, name) for name in ("sealed", "seals", "texts", "checkpoints", "unsigned")}
        return {"sound": self.sound, **counted, "newest": self.newest, "tail": tail, "faults": self.told}

    def words(self) -> list[str]:
        """Lines for a person."""
        verdict = "every sealed row is as it was sealed" if self.sound else f"{self.faults} FAULTS"
        lines = [f"{self.sealed} rows under {self.seals} seals: {verdict}"]
        lines += [f"  {one}" for one in self.told]
        if self.faults > len(self.told):
            lines.append(f"  and {self.faults - len(self.told)} more")
        unsigned = f", {self.unsigned} of them without a look at the signature: no key" if self.unsigned else ""
        lines.append(f"{self.checkpoints} checkpoints compared{unsigned}; {self.texts} texts of configuration")
        lines.append(f"{len(self.tail)} rows are not sealed yet" + (":" if self.tail else ""))
        lines += [f"  {kind} {ref}" for kind, ref in self.tail]
        return lines


class Verifier:
    """Takes the items of an export one by one, in their order; `end` gives the report.

    Keeps in memory: leaves of the range that is not sealed yet, votes and ends of approvals, digests of seals.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self._report = Report()
        self._leaves: list[bytes] = []
        self._position = 0  # the last one that was seen
        self._sealed_to = 0
        self._seal: Item | None = None
        self._digests: dict[int, str] = {}
        self._ends: dict[int, Any] = {}  # event number -> the approval's state that it tells
        self._votes: dict[int, list[tuple[int, Item]]] = {}
        self._events_to = self._votes_to = 0
        self._items = 0
        self._header: Item | None = None
        self._ended = self._tailing = False

    def take(self, item: Any) -> None:
        """One item.  What has no proper shape is a fault like any other."""
        self._items += 1
        try:
            take = getattr(self, f"_take_{item['type']}")
            if self._ended or (self._header is None) != (item["type"] == "header"):
                self._report.fault(f"item {self._items} ({item['type']}) stands where none belongs")
            take(item)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self._report.fault(f"item {self._items} cannot be read: {type(error).__name__}: {error}")

    def end(self) -> Report:
        """Nothing more comes."""
        if not self._ended:
            self._report.fault("the export ends too early: its last line is missing")
        if self._leaves:
            self._report.fault(f"positions {self._sealed_to + 1} to {self._position} are sealed, and no seal is there")
        self._report.newest = str(self._seal["digest"]) if self._seal else ""
        return self._report

    def _take_header(self, item: Item) -> None:
        self._header = item
        if item["format"] != FORMAT:
            raise ValueError(f"format {item['format']} is unknown to this verifier")

    def _take_entry(self, item: Item) -> None:
        position, kind, ref, told = item["position"], item["kind"], item["ref"], item["digest"]
        name = f"{kind} {ref} (position {position})"
        if self._tailing or position != self._position + 1:
            self._report.fault(f"{name} stands where position {self._position + 1} belongs")
        self._position = position
        self._leaves.append(canonical([position, kind, ref, told]))
        self._report.sealed += 1
        self._content(item, name)

    def _take_tail(self, item: Item) -> None:
        self._tailing = True
        name = f"{item['kind']} {item['ref']}"
        if item["position"] is not None:
            self._report.fault(f"{name} has position {item['position']}, which no seal covers")
        if self._content(item, f"{name} (not sealed)"):
            self._report.tail.append((item["kind"], item["ref"]))

    def _content(self, item: Item, name: str) -> bool:
        """Whether the row is what its entry says; remembers what states are compared with."""
        row, kind, ref = item["row"], item["kind"], item["ref"]
        if kind not in ROWS:
            self._report.fault(f"{name}: there is no such table")
        elif row is None:
            self._report.fault(f"{name} is gone")
        elif row["seq"] != ref or set(row) != set(ROWS[kind].split()):
            self._report.fault(f"{name}: its entry stands over another row")
        elif digest({"row": row, "table": kind}) != item["digest"]:
            self._report.fault(f"{name} was changed")
        else:
            self._remember(kind, row)
            return True
        return False

    def _remember(self, kind: str, row: Item) -> None:
        if kind == "ledger_events":
            self._events_to = max(self._events_to, row["seq"])
            if row["topic"] == "approval":
                self._ends[row["seq"]] = [row["ref"], json.loads(row["body"])]
        elif kind == "votes":
            self._votes_to = max(self._votes_to, row["seq"])
            vote = {"by": row["person"], "teams": json.loads(row["teams"])}
            vote.update({key: row[key] for key in ("decision", "reason", "at")})
            self._votes.setdefault(row["approval_seq"], []).append((row["seq"], vote))

    def _take_seal(self, item: Item) -> None:
        number, before = item["number"], self._seal
        name = f"seal {number}"
        body = {key: item[key] for key in ("number", "first", "last", "count", "root", "previous", "at")}
        if digest({"format": FORMAT, **body}) != item["digest"]:
            self._report.fault(f"{name} was changed")
        if number != (1 if before is None else before["number"] + 1):
            self._report.fault(f"{name} stands where seal {1 if before is None else before['number'] + 1} belongs")
        if item["previous"] != ("" if before is None else before["digest"]):
            self._report.fault(f"{name} does not follow the seal before it")
        if before is not None and item["at"] < before["at"]:
            self._report.fault(f"{name} is dated before the seal that it follows")
        if item["first"] != self._sealed_to + 1 or item["last"] != self._position:
            self._report.fault(f"{name} covers {item['first']} to {item['last']}, the rows are others")
        if item["count"] != len(self._leaves) or item["count"] != item["last"] - item["first"] + 1:
            self._report.fault(f"{name} covers {item['count']} rows, there are {len(self._leaves)}")
        if item["root"] != root_of(self._leaves):
            self._report.fault(f"{name} does not fit the rows from {item['first']} to {item['last']}")
        self._seal, self._sealed_to, self._leaves = item, item["last"], []
        self._digests[number] = item["digest"]
        self._report.seals += 1

    def _take_stray(self, item: Item) -> None:
        self._report.fault(f"{item['kind']} {item['ref']} was never entered into the ledger")

    def _take_state(self, item: Item) -> None:
        """What an approval says of itself; one that changed while the export ran is left to the next."""
        seq, event, vote = item["approval"], item["event"], item["vote"]
        if event is None or event <= self._events_to:
            shown = {key: item[key] for key in ("status", "note", "ended_at", "superseded_by")}
            fresh = {"status": "pending", "note": "", "ended_at": None, "superseded_by": None}
            if (self._ends.get(event) if event is not None else [seq, fresh]) != [seq, shown]:
                self._report.fault(f"approval {seq} says {item['status']}, its sealed events say otherwise")
        if vote is None or vote <= self._votes_to:
            cast = [one for _, one in sorted(self._votes.get(seq, []), key=lambda pair: pair[0])]
            if canonical(cast).decode() != item["votes"]:
                self._report.fault(f"the votes shown on approval {seq} are not those that were cast")

    def _take_text(self, item: Item) -> None:
        self._report.texts += 1
        if item["body"] is None:  # an export leaves out registries, which may hold secrets
            return
        if "sha256:" + hashlib.sha256(item["body"].encode()).hexdigest() != item["digest"]:
            self._report.fault(f"the text {item['digest']} ({item['kind']} {item['name']}) was changed")

    def _take_checkpoint(self, item: Item) -> None:
        self._report.checkpoints += 1
        name = f"the checkpoint of seal {item['number']}"
        if self._key is None:
            self._report.unsigned += 1
        else:
            signed = canonical({key: item[key] for key in SIGNED})
            wanted = "hmac-sha256:" + hmac.new(self._key, signed, hashlib.sha256).hexdigest()
            if not hmac.compare_digest(wanted, item["signature"]):
                self._report.fault(f"{name} is not signed with this key")
        standing = self._digests.get(item["number"])
        if standing is None:
            self._report.fault(f"{name} stands, and the seal is gone")
        elif standing != item["digest"]:
            self._report.fault(f"{name} is of another seal than the one that stands there now")

    def _take_end(self, item: Item) -> None:
        self._ended = True
        if item["items"] != self._items:
            self._report.fault(f"the export has {self._items} items, it says {item['items']}")


def of_sqlite(file: Path) -> Iterator[Item]:
    """The items of an export, read from a database file itself in one snapshot."""
    connection = sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, isolation_level=None)
    connection.row_factory = sqlite3.Row
    count = 0
    try:
        connection.execute("BEGIN")
        for count, item in enumerate(_items(connection), 1):  # noqa: B007 -- the last one is used below
            yield item
        yield {"type": "end", "items": count + 1}
    finally:
        connection.close()


def _items(connection: sqlite3.Connection) -> Iterator[Item]:
    yield {"type": "header", "format": FORMAT}
    seals = [dict(row) for row in connection.execute("SELECT * FROM seals ORDER BY last, number")]
    covered = max((one["last"] for one in seals), default=0)
    sealed = connection.execute("SELECT * FROM ledger WHERE position <= ? ORDER BY position, seq", [covered])
    at = 0
    for entry in sealed:
        while at < len(seals) and seals[at]["last"] < entry["position"]:
            yield {"type": "seal", **seals[at]}
            at += 1
        yield {"type": "entry", **_with_row(connection, entry)}
    for seal in seals[at:]:
        yield {"type": "seal", **seal}
    tail = "SELECT * FROM ledger WHERE position IS NULL OR position > ? ORDER BY seq"
    for entry in connection.execute(tail, [covered]):
        yield {"type": "tail", **_with_row(connection, entry)}
    for kind in ROWS:
        strays = f"SELECT seq FROM {kind} WHERE seq NOT IN (SELECT ref FROM ledger WHERE kind = ?)"  # noqa: S608 -- ours
        for row in connection.execute(strays, [kind]):
            yield {"type": "stray", "kind": kind, "ref": row["seq"]}
    states = """SELECT seq AS approval, status, note, ended_at, superseded_by, votes,
        (SELECT max(e.seq) FROM ledger_events e WHERE e.topic = 'approval' AND e.ref = a.seq) AS event,
        (SELECT max(v.seq) FROM votes v WHERE v.approval_seq = a.seq) AS vote FROM approvals a ORDER BY seq"""
    for row in connection.execute(states):
        yield {"type": "state", **dict(row)}
    for row in connection.execute("SELECT * FROM texts ORDER BY digest"):
        yield {"type": "text", **dict(row)}


def _with_row(connection: sqlite3.Connection, entry: sqlite3.Row) -> Item:
    kind, row = entry["kind"], None
    if kind in ROWS:
        columns = ", ".join(ROWS[kind].split())
        found = connection.execute(f"SELECT {columns} FROM {kind} WHERE seq = ?", [entry["ref"]]).fetchone()  # noqa: S608
        row = None if found is None else dict(found)
    return {**{key: entry[key] for key in ("position", "kind", "ref", "digest")}, "row": row}


def _with_checkpoints(items: Iterable[Item], file: Path | None) -> Iterator[Item]:
    """The items, with the checkpoints of a file before the end."""
    added = 0
    for item in items:
        if item.get("type") == "end" and file is not None:
            for line in file.read_text(encoding="utf-8").splitlines():
                added += 1
                yield {"type": "checkpoint", **json.loads(line)}
        yield {**item, "items": item["items"] + added} if item.get("type") == "end" else item


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    asked = argparse.ArgumentParser(description="Verify a ledger of fleetwarden offline.")
    asked.add_argument("export", nargs="?", type=Path, help="what 'fleetwarden ledger export' wrote")
    asked.add_argument("--sqlite", type=Path, metavar="FILE", help="a database file instead")
    asked.add_argument("--key", type=Path, metavar="FILE", help="the key that checkpoints are signed with")
    asked.add_argument("--checkpoints", type=Path, metavar="FILE", help="checkpoints that were kept elsewhere")
    asked.add_argument("--json", action="store_true", help="the report as JSON")
    given = asked.parse_args(arguments)
    if (given.export is None) == (given.sqlite is None):
        asked.error("name an export, or a database with --sqlite")
    try:
        verifier = Verifier(given.key.read_bytes().strip() if given.key else None)
        lines = of_sqlite(given.sqlite) if given.sqlite else _lines(given.export)
        for item in _with_checkpoints(lines, given.checkpoints):
            verifier.take(item)
    except (OSError, ValueError, sqlite3.Error) as error:
        sys.stderr.write(f"cannot be read: {error}\n")
        return 2
    report = verifier.end()
    told = json.dumps(report.plain()) if given.json else "\n".join(report.words())
    sys.stdout.write(f"{told}\n")
    return 0 if report.sound else 1


def _lines(file: Path) -> Iterator[Item]:
    with file.open(encoding="utf-8") as opened:
        for line in opened:
            yield json.loads(line)


if __name__ == "__main__":
    sys.exit(main())
