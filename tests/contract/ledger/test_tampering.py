"""Whatever is done to sealed rows is found, and what is not sealed is named exactly."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fleetwarden import ledger_verifier
from fleetwarden.domain.errors import Conflict
from fleetwarden.domain.identifiers import canonical_json
from fleetwarden.ledger_verifier import of_sqlite
from fleetwarden.store.opening import open_store
from fleetwarden.testing.system import FakeClock
from tests.conftest import DEPTH
from tests.contract.ledger import ledgers
from tests.contract.ledger.mutations import MUTATIONS, tampered
from tests.contract.ledger.replaying import Replay, verified

pytestmark = pytest.mark.req("RUN-8")
ROUNDS = {"full": 100_000}.get(DEPTH, 3_000)
WHOLE_EVERY = 20
FILES = {"full": 400}.get(DEPTH, 60)
VERIFIER = Path(ledger_verifier.__file__)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ledger")


@pytest.fixture(scope="module")
def items(folder: Path) -> list[dict[str, Any]]:
    store = open_store(str(folder / "fleet.db"), FakeClock())
    ledgers.fill(store, folder)
    exported = ledgers.export(store, folder)
    store.close()
    return exported


@pytest.fixture(scope="module")
def key(folder: Path, items: object) -> bytes:
    return (folder / "ledger.key").read_bytes().strip()


def test_an_honest_ledger_is_sound_and_its_tail_is_named(items: list[dict[str, Any]], key: bytes) -> None:
    report = verified(items, key)
    assert report.told == []
    assert report.seals > 3
    assert report.sealed == sum(one["type"] == "entry" for one in items)
    assert {one["kind"] for one in items if one["type"] == "entry"} == set(ledger_verifier.ROWS)
    assert report.tail == [("decisions", 7), ("journal", 3)]
    assert (report.checkpoints, report.unsigned, report.texts) == (1, 0, 1)


def test_every_random_mutation_of_what_is_sealed_is_found(items: list[dict[str, Any]], key: bytes) -> None:
    """Most of them by what the change leaves to read; every so often a whole reading has to say the same."""
    random, missed, tried, replay = Random(20_261_202), [], Counter[str](), Replay(items, key)
    assert replay.sound(items)
    for round_ in range(ROUNDS):
        name, changed = tampered(items, random)
        tried[name] += 1
        sound = replay.sound(changed)
        if round_ % WHOLE_EVERY == 0:
            assert sound == verified(changed, key).sound, name
        if sound:
            missed.append((name, [pair for pair in zip(items, changed, strict=False) if pair[0] != pair[1]][:2]))
    assert missed == []
    assert len(tried) == len(MUTATIONS)


FORGED = """
    INSERT INTO journal (at, topic, actor, subject, severity, summary, detail)
    VALUES (1, 'freeze', 'bob', '', 'info', 'bob did it', '{}')
"""


def edits(connection: sqlite3.Connection, random: Random) -> str:
    """One statement of somebody who can write the file."""
    [last] = connection.execute("SELECT max(last) FROM seals").fetchone()
    kind, ref, position = random.choice(
        connection.execute("SELECT kind, ref, position FROM ledger WHERE position <= ?", [last]).fetchall()
    )
    column = random.choice(ledger_verifier.ROWS[kind].split()[1:])
    [before] = connection.execute(f"SELECT {column} FROM {kind} WHERE seq = {ref}").fetchone()
    fresh = "'tampered'" if isinstance(before, str) else str((before or 0) - 1)
    other = position % last + 1
    exchange = (
        f"UPDATE ledger SET position = CASE position WHEN {position} THEN -{other} ELSE -{position} END "
        f"WHERE position IN ({position}, {other}); UPDATE ledger SET position = -position WHERE position < 0"
    )
    return random.choice(
        [
            f"UPDATE {kind} SET {column} = {fresh} WHERE seq = {ref}",
            f"UPDATE ledger SET digest = 'sha256:0' WHERE position = {position}",
            f"DELETE FROM ledger WHERE position = {position}",
            f"DELETE FROM {kind} WHERE seq = {ref}",
            f"UPDATE ledger SET position = NULL WHERE position = {position}",
            f"UPDATE ledger SET position = {last} + 7 WHERE position = {position}",
            exchange,
            "DELETE FROM seals WHERE number = (SELECT max(number) FROM seals)",
            "UPDATE seals SET at = at - 1 WHERE number = 2",
            f"DELETE FROM ledger WHERE position > {last} - 2",
            "UPDATE approvals SET status = 'granted' WHERE status = 'rejected'",
            "UPDATE approvals SET votes = '[]' WHERE votes <> '[]'",
            FORGED,
            "UPDATE texts SET body = body || ' '",
        ]
    )


def found_by_the_product(file: Path, folder: Path, key: bytes) -> bool:
    """It says so, or does not even take the file: a number that was given out is given out again."""
    try:
        store = open_store(str(file), FakeClock())
    except Conflict as refusal:
        return "ledger.kind, ledger.ref" in str(refusal)
    try:
        return not verified(ledgers.export(store, folder), key).sound
    finally:
        store.close()


def test_every_edit_of_the_database_file_is_found_by_the_verifier_and_by_the_product(
    items: object, key: bytes, folder: Path, tmp_path: Path
) -> None:
    random, missed = Random(7), []
    checkpoints = folder / "ledger-checkpoints.jsonl"
    for round_ in range(FILES):
        file = tmp_path / f"{round_}.db"
        shutil.copy(folder / "fleet.db", file)
        connection = sqlite3.connect(file)
        connection.execute("PRAGMA foreign_keys = OFF")
        statement = edits(connection, random)
        connection.executescript(statement)
        connection.close()
        offline = verified(ledger_verifier._with_checkpoints(of_sqlite(file), checkpoints), key)
        own = found_by_the_product(file, folder, key)
        if offline.sound or not own:
            missed.append((statement, offline.sound, own))
        file.unlink()
    assert missed == []


def test_the_verifier_is_one_file_that_needs_nothing_of_ours(
    items: list[dict[str, Any]], folder: Path, tmp_path: Path
) -> None:
    alone = shutil.copy(VERIFIER, tmp_path / "ledger_verifier.py")
    export = tmp_path / "export.jsonl"
    export.write_bytes(b"".join(canonical_json(one) + b"\n" for one in items))

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", str(alone), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    told = run(export, "--key", folder / "ledger.key")
    assert (told.returncode, told.stderr) == (0, "")
    assert "every sealed row is as it was sealed" in told.stdout
    assert "2 rows are not sealed yet:\n  decisions 7\n  journal 3\n" in told.stdout
    of_file = run("--sqlite", folder / "fleet.db", "--checkpoints", folder / "ledger-checkpoints.jsonl")
    assert of_file.returncode == 0
    assert "1 checkpoints compared, 1 of them without a look at the signature" in of_file.stdout
    export.write_text(export.read_text().replace("ann froze everything", "ann froze nothing"))
    told = run(export)
    assert told.returncode == 1
    assert "journal 2 (position" in told.stdout
    export.write_text(export.read_text()[:-40])
    assert run(export).returncode == 2
    assert run(tmp_path / "nowhere.jsonl").returncode == 2


def test_checkpoints_signed_with_another_key_are_found(items: list[dict[str, Any]]) -> None:
    assert not verified(items, b"another key").sound
    assert verified(items, None).unsigned == 1


def test_a_replay_finds_what_a_whole_reading_finds_sound_or_not(items: list[dict[str, Any]], key: bytes) -> None:
    """Also where the key is missing, so that some changes are not to be found."""
    random, said = Random(3), Counter[bool]()
    bare = [one for one in items if one["type"] not in ("checkpoint", "state", "tail")]
    bare[-1] = {"type": "end", "items": len(bare)}
    replay = Replay(bare, None)
    for _ in range(400):
        text = random.choice([at for at, one in enumerate(bare) if one["type"] == "text"])
        changed = [*bare[:text], {**bare[text], "name": random.choice("ab")}, *bare[text + 1 :]]
        if random.random() < 0.5:
            changed[random.randrange(len(changed))] = random.choice(bare)
        sound = replay.sound(changed)
        assert sound == verified(changed, None).sound
        said[sound] += 1
    assert min(said[True], said[False]) > 50
